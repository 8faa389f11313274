"""What was done on a GPU once, done again without launching its kernels one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

T = TypeVar("T")


@contextmanager
def own_stream(device: torch.device) -> Iterator[Any]:
    """A stream other than the default one, which cannot be recorded; yields a pool of memory for recordings on it."""
    stream, before = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    stream.wait_stream(before)
    with torch.cuda.stream(stream):  # makes its device the current one, too
        yield torch.cuda.graph_pool_handle()
    before.wait_stream(stream)


def record(run: Callable[[], T], pool: Any) -> tuple[Callable[[], Any], T]:
    """How to do again what ``run`` does to the tensors at hand, and what it returned, which each replay overwrites.

    ``run`` must have run before with tensors of the same shapes, and never look at a value. Nothing is computed
    until the first replay. Within :func:`own_stream`.
    """
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    try:
        made = run()
    finally:
        graph.capture_end()
    return graph.replay, made


def cause(error: RuntimeError) -> str:
    """What went wrong in a sentence; torch goes on with what every process holds of the GPU's memory."""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first.split('. ')[0].rstrip('.')}"
