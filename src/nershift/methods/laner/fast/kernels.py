"""CUDA kernels of label-aware decoding (``context.cu``, ``propagate.cu``); none of them gives a gradient."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import torch
from torch import Tensor

from nershift.backend.cuda_source import CudaFunction

QUADS = 2  # sentences of a block, in fours
_WARP = 32
_FLOAT = 4  # bytes
_MIN_SHARED = 48 * 1024  # bytes of shared memory that a block may have on any GPU


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
    """Mean of a prefix's states, forward and backward, as each position attends to them (eq. 8): ``[B, R, 2D]``.

    Args:
        gates: what each label adds to the four gates of the backward LSTM, ``[K, 4D]``.
        weight: its recurrent weights, ``[4D, D]``.
        labels: ids, ``[B, n]``.
        ahead: forward states, ``[B, n, D]``.
        query: for the backward states, ``[B, R, D]``; positions count from ``first``.
        scores: what the forward states add to the attention scores, ``[B, R, n]``.
        live: bool, ``[B, n]``: results of other positions are arbitrary.
        first: the first position to compute.
        quads: sentences of a block, in fours.
    """
    batch, n = labels.shape
    rows, size = query.shape[1:]
    out = torch.zeros(batch, rows, 2 * size, dtype=query.dtype, device=query.device)
    groups = -(-batch // (4 * quads))
    if groups * rows:
        by_unit = weight.view(4, size, size).permute(2, 1, 0)  # [state, unit, gate]
        inputs = [x.contiguous() for x in (by_unit, gates, labels, ahead, query, scores, live)]
        kernel = _context_kernel(size, quads, query.device.index)
        kernel(rows * groups, warps(size) * _WARP, [*inputs, out, batch, n, rows, first, groups])
    return out


def propagate(
    scores: Tensor,
    best: Tensor,
    before: Tensor,
    may: Tensor,
    token_attention: Tensor,
    background_attention: Tensor,
    background: Tensor,
    values: Tensor,
    forbidden: Tensor,
    first: int,
) -> Tensor:
    """Tags ``[B, R]`` of :meth:`nershift.methods.laner.fast.chain.Chain.propagate`."""
    batch, rows, tags = scores.shape
    out = torch.empty_like(best, memory_format=torch.contiguous_format)
    if batch * rows:
        tables = (token_attention, background_attention, background, values, forbidden)
        inputs = [x.contiguous() for x in (scores, best, before, may, *tables)]
        kernel = _propagate_kernel(tags, values.shape[1], scores.device.index)
        kernel(batch, _WARP, [*inputs, out, rows, token_attention.shape[1], first])
    return out


def warps(size: int) -> int:
    return -(-size // _WARP)


@lru_cache(maxsize=8)
def _context_kernel(size: int, quads: int, device: int) -> CudaFunction:
    with torch.cuda.device(device):
        properties = torch.cuda.get_device_properties(device)
        room = getattr(properties, "shared_memory_per_block_optin", _MIN_SHARED)
        shared = shared_bytes(size, quads, weights=True)
        fits = shared <= room
        if not fits:
            shared = shared_bytes(size, quads, weights=False)
        return CudaFunction(source("context"), "label_context", context_settings(size, quads, fits), shared)


@lru_cache(maxsize=32)
def _propagate_kernel(tags: int, prefix: int, device: int) -> CudaFunction:
    with torch.cuda.device(device):
        return CudaFunction(source("propagate"), "propagate", {"TAGS": tags, "PREFIX": prefix}, 0)


def source(name: str) -> str:
    return files("nershift.methods.laner.fast").joinpath(f"{name}.cu").read_text("utf-8")


def context_settings(size: int, quads: int, shared: bool) -> dict[str, int]:
    return {"SIZE": size, "QUADS": quads, "SHARED": int(shared)}


def shared_bytes(size: int, quads: int, weights: bool) -> int:
    """Shared memory of a block: states before and after a step, partial scores, and the recurrent weights if asked."""
    walks = 4 * quads
    return _FLOAT * (2 * walks * (size + warps(size)) + 4 * size * size * weights)
