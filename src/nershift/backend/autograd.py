"""Gradients beyond torch's defaults: a fast one for table look-ups, and a switch for second-order ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor
from torch.nn.functional import embedding

_twice: ContextVar[bool] = ContextVar("nershift_double_backward", default=False)


def look_up(table: Tensor, where: Tensor) -> Tensor:
    """``table[where]``: from ``[U, …]`` and numbers ``[B, L]`` to ``[B, L, …]``.

    On a GPU, the gradient of plain indexing adds up equal rows one after the other, and padding makes thousands of
    positions share one row. That of an embedding adds them in parallel, and is faster on a CPU too.
    """
    return embedding(where, table.flatten(1)).unflatten(-1, table.shape[1:])


@contextmanager
def double_backward() -> Iterator[None]:
    """Within this block, fast paths without a second derivative (CRF, characters) are replaced by plain ones."""
    token = _twice.set(True)
    try:
        yield
    finally:
        _twice.reset(token)


def double_backward_wanted() -> bool:
    return _twice.get()
