"""Label context of every position at once on the GPU: one kernel for the walks and the attention over them.

The kernel is ``context.cu``. It gives no gradient; training has the library's LSTM.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import torch
from torch import Tensor

from nershift.nn.cuda_source import CudaFunction

QUADS = 1  # walks that share a block's weights, by four
_WARP = 32
_FLOAT = 4  # bytes
_LEAST_SHARED = 48 * 1024  # bytes of shared memory that a block may have on any GPU


def run(
    gates: Tensor,
    weight: Tensor,
    labels: Tensor,
    ahead: Tensor,
    query: Tensor,
    scores: Tensor,
    live: Tensor,
    first: int,
    quads: int = QUADS,
) -> Tensor:
    """Mean of a prefix's states, forward and backward, as each position looks at them: ``[B, R, 2D]``.

    Args:
        gates: what each label adds to the four gates of the backward LSTM, ``[K, 4D]``.
        weight: its recurrent weights, ``[4D, D]``.
        labels: ids, ``[B, n]``.
        ahead: forward states, ``[B, n, D]``.
        query: of the backward states, ``[B, R, D]``; positions count from ``first``.
        scores: what forward states add to the attention's scores, ``[B, R, n]``.
        live: bool, ``[B, n]``: other positions may have any result.
        quads: sentences of a block, by four.
    """
    batch, n = labels.shape
    rows, size = query.shape[1:]
    out = torch.zeros(batch, rows, 2 * size, dtype=query.dtype, device=query.device)
    groups = -(-batch // (4 * quads))
    if groups * rows:
        by_unit = weight.view(4, size, size).permute(2, 1, 0)  # [state, unit, gate]
        given = [x.contiguous() for x in (by_unit, gates, labels, ahead, query, scores, live)]
        kernel = _kernel(size, quads, query.device.index)
        kernel(rows * groups, warps(size) * _WARP, [*given, out, batch, n, rows, first, groups])
    return out


def warps(size: int) -> int:
    return -(-size // _WARP)


@lru_cache(maxsize=8)
def _kernel(size: int, quads: int, device: int) -> CudaFunction:
    with torch.cuda.device(device):
        room = getattr(
            torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", _LEAST_SHARED
        )
        shared = shared_bytes(size, quads, weights=True)
        fits = shared <= room
        if not fits:
            shared = shared_bytes(size, quads, weights=False)
        return CudaFunction(source(), "label_context", settings(size, quads, fits), shared)


def source() -> str:
    return files("nershift.nn.label_aware").joinpath("context.cu").read_text("utf-8")


def settings(size: int, quads: int, shared: bool) -> dict[str, int]:
    return {"SIZE": size, "QUADS": quads, "SHARED": int(shared)}


def shared_bytes(size: int, quads: int, weights: bool) -> int:
    """Of a block: states before and after a step, parts of its scores, and the recurrent weights if they fit."""
    walks = 4 * quads
    return _FLOAT * (2 * walks * (size + warps(size)) + 4 * size * size * weights)
