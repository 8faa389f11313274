"""What a chain expects: the probability of every tag of every token, and how often each step is taken.

Textbook forward-backward in log space, in torch, on any device and for scores of any size. A teacher reads a text once,
so this is not where time goes.
"""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def expectations(
    emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Probabilities of tags ``[B, L, C]``, zero under padding, and expected steps ``[B, C, C]``, before × after.

    Args:
        emissions: [B, L, C].
        transitions: [C, C], before × after; impossible ones at -1e9.
        starts: [C].
        ends: [C].
        mask: bool, left aligned, [B, L].
    """
    emissions = emissions.masked_fill(~mask[..., None], 0.0)
    length = emissions.shape[1]
    into = [starts + emissions[:, 0]]  # log weight of all ways to a tag, [B, C] each
    for t in range(1, length):
        step = torch.logsumexp(into[-1][:, :, None] + transitions, 1) + emissions[:, t]
        into.append(torch.where(mask[:, t, None], step, into[-1]))
    total = torch.logsumexp(into[-1] + ends, 1)[:, None]  # [B, 1]
    rest = ends.expand_as(into[-1])  # log weight of all ways on from a tag
    single, steps = torch.zeros_like(emissions), emissions.new_zeros(len(mask), *transitions.shape)
    for t in range(length - 1, -1, -1):
        single[:, t] = (into[t] + rest - total).exp()
        if t:
            onward = emissions[:, t] + rest  # [B, C]
            pairs = into[t - 1][:, :, None] + transitions + (onward - total)[:, None]  # [B, before, after]
            steps += pairs.exp().masked_fill(~mask[:, t, None, None], 0.0)
            before = torch.logsumexp(transitions + onward[:, None], 2)
            rest = torch.where(mask[:, t, None], before, rest)  # a sentence that ended earlier has only its end so far
    return single.masked_fill(~mask[..., None], 0.0), steps
