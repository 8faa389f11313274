"""Label-aware decoding on the GPU by kernels of its own, written in CUDA; none of them gives a gradient."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import torch
from torch import Tensor

from nershift.backend.cuda_source import CudaFunction

QUADS = 2  # walks that share a block's weights, by four
_WARP = 32
_FLOAT = 4  # bytes
_LEAST_SHARED = 48 * 1024  # bytes of shared memory that a block may have on any GPU


def context(
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
        first: the first position that is wanted.
        quads: sentences of a block, by four.
    """
    batch, n = labels.shape
    rows, size = query.shape[1:]
    out = torch.zeros(batch, rows, 2 * size, dtype=query.dtype, device=query.device)
    groups = -(-batch // (4 * quads))
    if groups * rows:
        by_unit = weight.view(4, size, size).permute(2, 1, 0)  # [state, unit, gate]
        given = [x.contiguous() for x in (by_unit, gates, labels, ahead, query, scores, live)]
        kernel = _context_kernel(size, quads, query.device.index)
        kernel(rows * groups, warps(size) * _WARP, [*given, out, batch, n, rows, first, groups])
    return out


def carry(
    scores: Tensor,
    best: Tensor,
    before: Tensor,
    may: Tensor,
    asked: Tensor,
    offered: Tensor,
    background: Tensor,
    values: Tensor,
    forbidden: Tensor,
    first: int,
) -> Tensor:
    """Tags ``[B, R]``: what :meth:`nershift.methods.laner.fast.chain.Chain.carried` finds, given what it has."""
    batch, rows, tags = scores.shape
    told = torch.empty_like(best, memory_format=torch.contiguous_format)
    if batch * rows:
        parts = (scores, best, before, may, asked, offered, background, values, forbidden)
        given = [x.contiguous() for x in parts]
        kernel = _carry_kernel(tags, values.shape[1], scores.device.index)
        kernel(batch, _WARP, [*given, told, rows, asked.shape[1], first])
    return told


def warps(size: int) -> int:
    return -(-size // _WARP)


@lru_cache(maxsize=8)
def _context_kernel(size: int, quads: int, device: int) -> CudaFunction:
    with torch.cuda.device(device):
        properties = torch.cuda.get_device_properties(device)
        room = getattr(properties, "shared_memory_per_block_optin", _LEAST_SHARED)
        shared = shared_bytes(size, quads, weights=True)
        fits = shared <= room
        if not fits:
            shared = shared_bytes(size, quads, weights=False)
        return CudaFunction(source("context"), "label_context", context_settings(size, quads, fits), shared)


@lru_cache(maxsize=32)
def _carry_kernel(tags: int, usual: int, device: int) -> CudaFunction:
    with torch.cuda.device(device):
        return CudaFunction(source("carry"), "carry", {"TAGS": tags, "USUAL": usual}, 0)


def source(name: str) -> str:
    return files("nershift.methods.laner.fast").joinpath(f"{name}.cu").read_text("utf-8")


def context_settings(size: int, quads: int, shared: bool) -> dict[str, int]:
    return {"SIZE": size, "QUADS": quads, "SHARED": int(shared)}


def shared_bytes(size: int, quads: int, weights: bool) -> int:
    """Of a block: states before and after a step, parts of its scores, and the recurrent weights if they fit."""
    walks = 4 * quads
    return _FLOAT * (2 * walks * (size + warps(size)) + 4 * size * size * weights)
