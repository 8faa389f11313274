"""Forward-backward on the GPU: one Triton kernel, one program a sentence, log space in float32.

A program keeps the exponentials of the transition table in registers, so that a step is a product of vector
and matrix; a step whose scores lie too far apart for that is done in log space proper. It runs forward while
it stores normalised forward scores, then runs backward and writes the gradient as it goes. Sums over many
tokens (the logarithms taken out by normalisation, the score of the gold path) are kept in float64, so that
long sentences lose nothing.

Importing this module needs triton; only :mod:`nershift.heads.crf.kernels` does so, when there is a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

_WARPS = {16: 1, 32: 8, 64: 16, 128: 16}
_NONE = tl.constexpr(-1e30)  # impossible, and still far from the end of float32 after a few additions
_FLOOR = tl.constexpr(-1e8)  # scores at or below this mean "impossible"
# Smaller shares than e^-80 are lost in float32; a step whose scores lie further apart is done in log space.
_NARROW = tl.constexpr(-80.0)


def run(
    emissions: Tensor,
    transitions: Tensor,
    starts: Tensor,
    ends: Tensor,
    mask: Tensor,
    tags: Tensor | None,
    gradient: bool,
) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
    """Log partition function (less the score of ``tags``) and how to pull gradients back through it.

    Returns:
        value [B] and the gradient function.
    """
    batch, length, size = emissions.shape
    plain = [x.float().contiguous() for x in (emissions, transitions, starts, ends)]
    padded = max(16, 1 << (size - 1).bit_length())
    value = plain[0].new_empty(batch)
    unary = torch.empty_like(plain[0]) if gradient else value
    # one row a sentence: transitions, starts, ends
    chain = plain[0].new_empty(batch, size * (size + 2)) if gradient else value
    scratch = plain[0].new_empty(batch, length, padded) if gradient else value
    here = mask.contiguous().view(torch.uint8)
    gold = here if tags is None else tags.contiguous()
    _kernel[(batch,)](
        *plain, here, gold, value, unary, chain, scratch, length,
        SIZE=size, PADDED=padded, TOKENS=1 << max(0, length - 1).bit_length(),
        GOLD=tags is not None, GRADIENT=gradient, num_warps=_WARPS[padded],
    )  # fmt: skip

    def pull(grad: Tensor) -> tuple[Tensor, ...]:
        grad = grad.float()
        summed = grad @ chain  # [B] @ [B, C·C + 2·C]
        parts = summed.split([size * size, size, size])
        return unary * grad[:, None, None], parts[0].view(size, size), parts[1], parts[2]

    return value, pull


@triton.jit
def _low(scores):  # type: ignore[no-untyped-def]
    """The least score of a vector whose greatest is 0, the impossible ones left out."""
    return tl.min(tl.where(scores > _FLOOR, scores, 0.0), 0)


@triton.jit
def _moves(transitions, SIZE: tl.constexpr, PADDED: tl.constexpr):  # type: ignore[no-untyped-def]
    """The transition table, [before, after]."""
    i = tl.arange(0, PADDED)
    inside = (i < SIZE)[:, None] & (i < SIZE)[None, :]
    table = tl.load(transitions + i[:, None] * SIZE + i[None, :], mask=inside, other=_NONE)
    return tl.maximum(table, _NONE)


@triton.jit(do_not_specialize=["length"])  # compiled once for all lengths of like size
def _kernel(  # type: ignore[no-untyped-def]
    emissions, transitions, starts, ends, mask, tags, value, unary, chain, scratch, length,
    SIZE: tl.constexpr, PADDED: tl.constexpr, TOKENS: tl.constexpr,
    GOLD: tl.constexpr, GRADIENT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    emissions += row * length * SIZE
    unary += row * length * SIZE
    scratch += row * length * PADDED
    chain += row * SIZE * (SIZE + 2)
    tags += row * length
    at = tl.arange(0, TOKENS)
    words = tl.sum(tl.load(mask + row * length + at, mask=at < length, other=0).to(tl.int32), 0)
    i = tl.arange(0, PADDED)
    real = i < SIZE
    both = real[:, None] & real[None, :]
    spots = i[:, None] * SIZE + i[None, :]
    if GRADIENT:
        for t in range(words, length):
            tl.store(unary + t * SIZE + i, tl.zeros([PADDED], tl.float32), mask=real)
    if words == 0:
        tl.store(value + row, 0.0)
        if GRADIENT:
            tl.store(chain + spots, tl.zeros([PADDED, PADDED], tl.float32), mask=both)
            tl.store(chain + SIZE * SIZE + i, tl.zeros([PADDED], tl.float32), mask=real)
            tl.store(chain + SIZE * SIZE + SIZE + i, tl.zeros([PADDED], tl.float32), mask=real)
    else:
        enter = tl.maximum(tl.load(starts + i, mask=real, other=_NONE), _NONE)
        leave = tl.maximum(tl.load(ends + i, mask=real, other=_NONE), _NONE)
        table = _moves(transitions, SIZE, PADDED)
        peak = tl.max(tl.max(table, 1), 0)
        depth = tl.min(tl.min(tl.where(table > _FLOOR, table - peak, 0.0), 1), 0)
        shares = tl.exp(table - peak)  # [before, after], at most 1

        # Forward: alpha is kept with its maximum at 0; what was taken out goes to `taken`.
        alpha = enter + tl.maximum(tl.load(emissions + i, mask=real, other=_NONE), _NONE)
        top = tl.max(alpha, 0)
        alpha = tl.maximum(alpha - top, _NONE)
        taken = top.to(tl.float64)
        if GRADIENT:
            tl.store(scratch + i, alpha)
        for t in range(1, words):
            step = tl.maximum(tl.load(emissions + t * SIZE + i, mask=real, other=_NONE), _NONE)
            if _low(alpha) + depth > _NARROW:
                alpha = peak + tl.log(tl.sum(tl.exp(alpha)[:, None] * shares, 0)) + step
            else:
                paths = alpha[:, None] + _moves(transitions, SIZE, PADDED)
                most = tl.max(paths, 0)
                alpha = most + tl.log(tl.sum(tl.exp(paths - most[None, :]), 0)) + step
            top = tl.max(alpha, 0)
            alpha = tl.maximum(alpha - top, _NONE)
            taken += top.to(tl.float64)
            if GRADIENT:
                tl.store(scratch + t * PADDED + i, alpha)
        final = alpha + leave
        top = tl.max(final, 0)
        result = taken + (top + tl.log(tl.sum(tl.exp(final - top), 0))).to(tl.float64)

        here = at < words
        if GOLD:
            after = tl.load(tags + at, mask=here, other=0)
            before = tl.load(tags + at - 1, mask=here & (at > 0), other=0)
            emitted = tl.load(emissions + at * SIZE + after, mask=here, other=0.0)
            moved = tl.load(transitions + before * SIZE + after, mask=here & (at > 0), other=0.0)
            result -= tl.sum(emitted.to(tl.float64) + moved.to(tl.float64), 0)
            result -= (tl.load(starts + tl.load(tags)) + tl.load(ends + tl.load(tags + words - 1))).to(tl.float64)
        tl.store(value + row, result.to(tl.float32))

        if GRADIENT:
            # Backward: beta leaves out the token's own emission. All warps must see the forward scores.
            tl.debug_barrier()
            single = tl.exp(final - top)
            single = single / tl.sum(single, 0)
            if GOLD:
                single -= (i == tl.load(tags + words - 1)).to(tl.float32)
            tl.store(unary + (words - 1) * SIZE + i, single, mask=real)
            tl.store(chain + SIZE * SIZE + SIZE + i, single, mask=real)
            pairs = tl.zeros([PADDED, PADDED], tl.float32)
            beta = leave
            for k in range(1, words):
                t = words - 1 - k
                step = tl.maximum(tl.load(emissions + (t + 1) * SIZE + i, mask=real, other=_NONE), _NONE)
                alpha = tl.load(scratch + t * PADDED + i)
                ahead = step + beta
                ahead = tl.maximum(ahead - tl.max(ahead, 0), _NONE)
                # Either way parts · exp(base) = exp(moves + ahead).
                if _low(ahead) + depth > _NARROW:
                    parts = shares * tl.exp(ahead)[None, :]
                    base = tl.zeros([PADDED], tl.float32) + peak
                else:
                    paths = _moves(transitions, SIZE, PADDED) + ahead[None, :]
                    base = tl.max(paths, 1)
                    parts = tl.exp(paths - base[:, None])
                beta = tl.maximum(base + tl.log(tl.sum(parts, 1)), _NONE)
                single = alpha + beta
                top = tl.max(single, 0)
                norm = top + tl.log(tl.sum(tl.exp(single - top), 0))
                # The bound matters only where all parts are 0; elsewhere the product is a probability.
                pairs += parts * tl.exp(tl.minimum(base + alpha - norm, 85.0))[:, None]
                single = tl.exp(single - norm)
                if GOLD:
                    single -= (i == tl.load(tags + t)).to(tl.float32)
                tl.store(unary + t * SIZE + i, single, mask=real)
            tl.store(chain + SIZE * SIZE + i, single, mask=real)  # the last one written is the first token's
            tl.store(chain + spots, pairs, mask=both)
            if GOLD:
                tl.debug_barrier()
                tl.atomic_add(chain + before * SIZE + after, -1.0, mask=here & (at > 0), sem="relaxed")
