"""Forward-backward on the GPU: one Triton kernel, one program a sentence, log space in float32.

A program keeps the transition table in registers, runs forward while it stores normalised forward scores,
then runs backward and writes the gradient as it goes. Sums over many tokens (the logarithms taken out by
normalisation and the score of the gold path) are kept in float64, so that long sentences lose nothing.

Importing this module needs triton; only :mod:`nershift.nn.crf_kernels` does so, when there is a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST_TAGS = 128
_WARPS = {16: 1, 32: 1, 64: 4, 128: 8}
_NONE = tl.constexpr(-1e30)  # impossible, and still far from the end of float32 after a few additions


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
    lengths = mask.sum(1, dtype=torch.int32)
    plain = [x.float().contiguous() for x in (emissions, transitions, starts, ends)]
    padded = max(16, 1 << (size - 1).bit_length())
    value = plain[0].new_zeros(batch)
    unary = plain[0].new_zeros(plain[0].shape if gradient else 1)
    # one row a sentence: transitions, starts, ends
    chain = plain[0].new_zeros((batch, size * (size + 2)) if gradient else 1)
    scratch = plain[0].new_empty((batch, length, padded) if gradient else 1)
    gold = lengths if tags is None else tags.long().contiguous()
    _kernel[(batch,)](
        *plain, lengths, gold, value, unary, chain, scratch, length,
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
def _kernel(  # type: ignore[no-untyped-def]
    emissions, transitions, starts, ends, lengths, tags, value, unary, chain, scratch, length,
    SIZE: tl.constexpr, PADDED: tl.constexpr, TOKENS: tl.constexpr,
    GOLD: tl.constexpr, GRADIENT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    words = tl.load(lengths + row)
    emissions += row * length * SIZE
    tags += row * length
    i = tl.arange(0, PADDED)
    real = i < SIZE
    both = real[:, None] & real[None, :]
    spots = i[:, None] * SIZE + i[None, :]
    moves = tl.maximum(tl.load(transitions + spots, mask=both, other=_NONE), _NONE)  # [before, after]
    enter = tl.maximum(tl.load(starts + i, mask=real, other=_NONE), _NONE)
    leave = tl.maximum(tl.load(ends + i, mask=real, other=_NONE), _NONE)
    if words > 0:
        # Forward: alpha is kept with its maximum at 0; what was taken out goes to `taken`.
        scratch += row * length * PADDED
        alpha = enter + tl.maximum(tl.load(emissions + i, mask=real, other=_NONE), _NONE)
        top = tl.max(alpha, 0)
        alpha = tl.maximum(alpha - top, _NONE)
        taken = top.to(tl.float64)
        if GRADIENT:
            tl.store(scratch + i, alpha)
        for t in range(1, words):
            step = tl.maximum(tl.load(emissions + t * SIZE + i, mask=real, other=_NONE), _NONE)
            paths = alpha[:, None] + moves
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

        if GOLD:
            at = tl.arange(0, TOKENS)
            here = at < words
            after = tl.load(tags + at, mask=here, other=0)
            before = tl.load(tags + at - 1, mask=here & (at > 0), other=0)
            emitted = tl.load(emissions + at * SIZE + after, mask=here, other=0.0)
            moved = tl.load(transitions + before * SIZE + after, mask=here & (at > 0), other=0.0)
            result -= tl.sum(emitted.to(tl.float64) + moved.to(tl.float64), 0)
            first = tl.load(tags)
            last = tl.load(tags + words - 1)
            result -= (tl.load(starts + first) + tl.load(ends + last)).to(tl.float64)
        tl.store(value + row, result.to(tl.float32))

        if GRADIENT:
            # Backward: beta leaves out the token's own emission. All warps must see the forward scores.
            tl.debug_barrier()
            unary += row * length * SIZE
            chain += row * SIZE * (SIZE + 2)
            single = tl.exp(final - top)
            single = single / tl.sum(single, 0)
            if GOLD:
                later = tl.load(tags + words - 1)
                single -= (i == later).to(tl.float32)
            tl.store(unary + (words - 1) * SIZE + i, single, mask=real)
            tl.store(chain + SIZE * SIZE + SIZE + i, single, mask=real)
            pairs = tl.zeros([PADDED, PADDED], tl.float32)
            beta = leave
            for k in range(1, words):
                t = words - 1 - k
                step = tl.maximum(tl.load(emissions + (t + 1) * SIZE + i, mask=real, other=_NONE), _NONE)
                alpha = tl.load(scratch + t * PADDED + i)
                ahead = tl.maximum(step + beta, _NONE)
                paths = moves + ahead[None, :]
                most = tl.max(paths, 1)
                shares = tl.exp(paths - most[:, None])
                beta = most + tl.log(tl.sum(shares, 1))
                single = alpha + beta
                top = tl.max(single, 0)
                norm = top + tl.log(tl.sum(tl.exp(single - top), 0))
                # shares · exp(most) = exp(moves + ahead), so a vector of exponentials turns them into pairs
                pairs += shares * tl.exp(most + alpha - norm)[:, None]
                single = tl.exp(single - norm)
                beta = tl.maximum(beta - tl.max(beta, 0), _NONE)
                if GOLD:
                    now = tl.load(tags + t)
                    single -= (i == now).to(tl.float32)
                    pairs -= (i == now).to(tl.float32)[:, None] * (i == later).to(tl.float32)[None, :]
                    later = now
                tl.store(unary + t * SIZE + i, single, mask=real)
            tl.store(chain + spots, pairs, mask=both)
            tl.store(chain + SIZE * SIZE + i, single, mask=real)  # after the loop: the first token's
