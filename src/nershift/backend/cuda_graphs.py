"""Work recorded on a GPU once and replayed without launching its kernels one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

T = TypeVar("T")


@contextmanager
def own_stream(device: torch.device) -> Iterator[Any]:
    """A stream other than the default one, which cannot be recorded; yields a memory pool for its recordings."""
    stream, before = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    stream.wait_stream(before)
    with torch.cuda.stream(stream):  # makes its device the current one, too
        yield torch.cuda.graph_pool_handle()
    before.wait_stream(stream)


def record(run: Callable[[], T], pool: Any) -> tuple[Callable[[], Any], T]:
    """A function that replays ``run`` on the same tensors, and the result of ``run``, which each replay overwrites.

    ``run`` must have run before with tensors of the same shapes, and must not read a value. Nothing is computed
    until the first replay. Call it within :func:`own_stream`.
    """
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    try:
        result = run()
    finally:
        graph.capture_end()
    return graph.replay, result


def cause(error: RuntimeError) -> str:
    """The error in one sentence, without torch's list of what every process holds of the GPU's memory."""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first.split('. ')[0].rstrip('.')}"
