"""Label context of every position at once on the GPU: one Triton kernel for the walks and the attention over them.

A program takes some sentences and one position ``i``: it walks back over the labels ``i … 0`` with the backward LSTM
and adds each state to the mean of eq. 8 as it goes, with a running maximum as in other fused attentions. No state
is ever written to memory. It gives no gradient; training has the library's LSTM.

Importing this module needs triton; only :mod:`nershift.nn.label_aware.prefixes` does so, when there is a GPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 16  # sentences of a program
WARPS = 8
# Three products of TensorFloat-32 are as exact as one of float32 for sums as short as these.
_PRECISION = tl.constexpr("tf32x3")
_NONE = tl.constexpr(-1e30)


def run(
    gates: Tensor,
    weight: Tensor,
    labels: Tensor,
    ahead: Tensor,
    query: Tensor,
    scores: Tensor,
    live: Tensor,
    first: int,
    block: int = BLOCK,
    warps: int = WARPS,
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
        block: sentences of a program, a power of two from 16 on.
        warps: of a program.
    """
    batch, n = labels.shape
    rows, size = query.shape[1:]
    out = torch.zeros(batch, rows, 2 * size, dtype=query.dtype, device=query.device)
    blocks = triton.cdiv(batch, block)
    if blocks * rows:
        given = (x.contiguous() for x in (gates, weight.t(), labels, ahead, query, scores))
        _kernel[(rows * blocks,)](
            *given, live.contiguous().view(torch.uint8), out, batch, n, rows, first, blocks,
            SIZE=size, HALF=max(16, triton.next_power_of_2(size) // 2), BLOCK=block, num_warps=warps, num_stages=1,
        )  # fmt: skip
    return out


@triton.jit
def _tanh(x):  # type: ignore[no-untyped-def]
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _gate(  # type: ignore[no-untyped-def]
    gates, weight, label, low, high, number, i, k, SIZE: tl.constexpr, HALF: tl.constexpr
):
    """Units ``i`` of one of the four gates before its squashing, ``[BLOCK, HALF]``."""
    at = number * SIZE + i
    read = tl.load(gates + label[:, None] * 4 * SIZE + at[None, :], mask=(i < SIZE)[None, :], other=0.0)
    # Volatile: else the compiler moves all weights out of the loop, and there is no room for them.
    place, inside = weight + k[:, None] * 4 * SIZE + at[None, :], (i < SIZE)[None, :]
    part = tl.load(place, mask=inside & (k < SIZE)[:, None], other=0.0, volatile=True)
    read = tl.dot(low, part, read, input_precision=_PRECISION)
    part = tl.load(
        place + HALF * 4 * SIZE, mask=inside & (k + HALF < SIZE)[:, None], other=0.0, volatile=True
    )
    return tl.dot(high, part, read, input_precision=_PRECISION)


@triton.jit
def _move(  # type: ignore[no-untyped-def]
    gates, weight, label, low, high, cell, i, k, SIZE: tl.constexpr, HALF: tl.constexpr
):
    """Half of the LSTM's units, one label on: state and cell."""
    enter = tl.sigmoid(_gate(gates, weight, label, low, high, 0, i, k, SIZE, HALF))
    forget = tl.sigmoid(_gate(gates, weight, label, low, high, 1, i, k, SIZE, HALF))
    new = _tanh(_gate(gates, weight, label, low, high, 2, i, k, SIZE, HALF))
    leave = tl.sigmoid(_gate(gates, weight, label, low, high, 3, i, k, SIZE, HALF))
    cell = forget * cell + enter * new
    return leave * _tanh(cell), cell


@triton.jit
def _kernel(  # type: ignore[no-untyped-def]
    gates, weight, labels, ahead, query, scores, live, out, batch, n, rows, first, blocks,
    SIZE: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Units are held in two halves, low and high, so that no tile of weights fills the registers."""
    row = rows - 1 - tl.program_id(0) // blocks  # the longest walks first
    position = first + row
    b = (tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    inside = b < batch
    k = tl.arange(0, HALF)
    i = k + HALF
    lows, highs = inside[:, None] & (k < SIZE)[None, :], inside[:, None] & (i < SIZE)[None, :]
    if tl.max(tl.load(live + b * n + position, mask=inside, other=0).to(tl.int32), 0) > 0:
        asked = query + (b * rows + row)[:, None] * SIZE
        asked_low = tl.load(asked + k[None, :], mask=lows, other=0.0)
        asked_high = tl.load(asked + i[None, :], mask=highs, other=0.0)
        low, high = tl.zeros([BLOCK, HALF], tl.float32), tl.zeros([BLOCK, HALF], tl.float32)
        cell_low, cell_high = tl.zeros([BLOCK, HALF], tl.float32), tl.zeros([BLOCK, HALF], tl.float32)
        # The two means, times `total`.
        back_low, back_high = tl.zeros([BLOCK, HALF], tl.float32), tl.zeros([BLOCK, HALF], tl.float32)
        forth_low, forth_high = tl.zeros([BLOCK, HALF], tl.float32), tl.zeros([BLOCK, HALF], tl.float32)
        top, total = tl.zeros([BLOCK], tl.float32) + _NONE, tl.zeros([BLOCK], tl.float32)
        for step in range(position + 1):
            at = position - step
            label = tl.load(labels + b * n + at, mask=inside, other=0)
            moved, cell_low = _move(gates, weight, label, low, high, cell_low, k, k, SIZE, HALF)
            high, cell_high = _move(gates, weight, label, low, high, cell_high, i, k, SIZE, HALF)
            low = moved
            score = tl.sum(low * asked_low, 1) + tl.sum(high * asked_high, 1)
            score += tl.load(scores + (b * rows + row) * n + at, mask=inside, other=0.0)
            highest = tl.maximum(top, score)
            kept, share = tl.exp(top - highest)[:, None], tl.exp(score - highest)[:, None]
            top = highest
            total = total * tl.sum(kept, 1) + tl.sum(share, 1)
            seen = ahead + (b * n + at)[:, None] * SIZE
            back_low = back_low * kept + share * low
            back_high = back_high * kept + share * high
            forth_low = forth_low * kept + share * tl.load(seen + k[None, :], mask=lows, other=0.0)
            forth_high = forth_high * kept + share * tl.load(seen + i[None, :], mask=highs, other=0.0)
        place, total = out + (b * rows + row)[:, None] * 2 * SIZE, total[:, None]
        tl.store(place + k[None, :], forth_low / total, mask=lows)
        tl.store(place + i[None, :], forth_high / total, mask=highs)
        tl.store(place + SIZE + k[None, :], back_low / total, mask=lows)
        tl.store(place + SIZE + i[None, :], back_high / total, mask=highs)
