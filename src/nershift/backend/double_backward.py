"""A switch for second-order gradients: inside it, modules take the paths that can be differentiated twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_twice: ContextVar[bool] = ContextVar("nershift_double_backward", default=False)


@contextmanager
def double_backward() -> Iterator[None]:
    """Within this block fast paths without a second derivative (CRF, characters) make way for plain ones."""
    token = _twice.set(True)
    try:
        yield
    finally:
        _twice.reset(token)


def double_backward_wanted() -> bool:
    return _twice.get()
