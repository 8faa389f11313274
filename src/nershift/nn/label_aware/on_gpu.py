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
    """
    batch, n = labels.shape
    rows, size = query.shape[1:]
    out = torch.zeros(batch, rows, 2 * size, dtype=query.dtype, device=query.device)
    blocks = triton.cdiv(batch, BLOCK)
    if blocks * rows:
        given = (x.contiguous() for x in (gates, weight.t(), labels, ahead, query, scores))
        _kernel[(rows * blocks,)](
            *given, live.contiguous().view(torch.uint8), out, batch, n, rows, first, blocks,
            SIZE=size, PADDED=max(16, triton.next_power_of_2(size)), BLOCK=BLOCK, num_warps=WARPS, num_stages=1,
        )  # fmt: skip
    return out


@triton.jit
def _tanh(x):  # type: ignore[no-untyped-def]
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _gate(gates, weight, label, h, number, i, real, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """One of the four gates before its squashing, ``[BLOCK, PADDED]``."""
    at = number * SIZE + i
    recurrent = tl.load(
        weight + i[:, None] * 4 * SIZE + at[None, :], mask=real[:, None] & real[None, :], other=0.0
    )  # [PADDED, PADDED]
    read = tl.load(gates + label[:, None] * 4 * SIZE + at[None, :], mask=real[None, :], other=0.0)
    return read + tl.dot(h, recurrent, input_precision=_PRECISION)


@triton.jit
def _kernel(  # type: ignore[no-untyped-def]
    gates, weight, labels, ahead, query, scores, live, out, batch, n, rows, first, blocks,
    SIZE: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = rows - 1 - tl.program_id(0) // blocks  # the longest walks first
    position = first + row
    b = (tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    inside = b < batch
    i = tl.arange(0, PADDED)
    real = i < SIZE
    both = inside[:, None] & real[None, :]
    if tl.max(tl.load(live + b * n + position, mask=inside, other=0).to(tl.int32), 0) > 0:
        asked = tl.load(query + (b * rows + row)[:, None] * SIZE + i[None, :], mask=both, other=0.0)
        h = tl.zeros([BLOCK, PADDED], tl.float32)
        cell = tl.zeros([BLOCK, PADDED], tl.float32)
        back = tl.zeros([BLOCK, PADDED], tl.float32)  # the two means, times `total`
        forth = tl.zeros([BLOCK, PADDED], tl.float32)
        top = tl.zeros([BLOCK], tl.float32) + _NONE
        total = tl.zeros([BLOCK], tl.float32)
        for step in range(position + 1):
            k = position - step
            label = tl.load(labels + b * n + k, mask=inside, other=0)
            enter = tl.sigmoid(_gate(gates, weight, label, h, 0, i, real, SIZE))
            forget = tl.sigmoid(_gate(gates, weight, label, h, 1, i, real, SIZE))
            new = _tanh(_gate(gates, weight, label, h, 2, i, real, SIZE))
            leave = tl.sigmoid(_gate(gates, weight, label, h, 3, i, real, SIZE))
            cell = forget * cell + enter * new
            h = leave * _tanh(cell)
            score = tl.sum(h * asked, 1) + tl.load(scores + (b * rows + row) * n + k, mask=inside, other=0.0)
            highest = tl.maximum(top, score)
            kept, share = tl.exp(top - highest), tl.exp(score - highest)
            top = highest
            total = total * kept + share
            back = back * kept[:, None] + share[:, None] * h
            seen = tl.load(ahead + (b * n + k)[:, None] * SIZE + i[None, :], mask=both, other=0.0)
            forth = forth * kept[:, None] + share[:, None] * seen
        place = out + (b * rows + row)[:, None] * 2 * SIZE + i[None, :]
        tl.store(place, forth / total[:, None], mask=both)
        tl.store(place + SIZE, back / total[:, None], mask=both)
