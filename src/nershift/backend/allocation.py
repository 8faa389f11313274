"""A bound on the memory that new tensors may take, for code that reads their sizes from a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_LEAST = 1024  # elements that any tensor counts as: very many small ones are too many as well


class TooLarge(ValueError):
    """Tensors that were asked for take more than was allowed."""


@contextmanager
def at_most(elements: int) -> Iterator[None]:
    """New tensors may have so many elements together; the one that would have more is never made.

    What is computed from other tensors does not count.

    Example:
        >>> import torch
        >>> with at_most(10_000):
        ...     torch.zeros(1 << 20, 1 << 20, 1 << 20)
        Traceback (most recent call last):
        nershift.backend.allocation.TooLarge: tensors of 1152921504606846976 elements, at most 10000 were expected
    """
    with _Counting(elements):
        yield


class _Counting(TorchDispatchMode):
    def __init__(self, elements: int) -> None:
        super().__init__()
        self._most, self._made = elements, 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nobody compiles a model within. To skip its compiler, torch would import it: a second, and 90 MB."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if not any(isinstance(value, Tensor) for value in (*args, *given.values())):
            self._made += max(_LEAST, *map(_size, args)) if args else _LEAST
            if self._made > self._most:
                raise TooLarge(f"tensors of {self._made} elements, at most {self._most} were expected")
        return func(*args, **given)


def _size(value: Any) -> int:
    """Elements that an argument of a function like ``zeros`` or ``arange`` asks for."""
    if isinstance(value, (list, tuple)):
        return prod(value) if all(isinstance(part, int) for part in value) else 0
    return int(value) if isinstance(value, (int, float)) and value > 0 else 0
