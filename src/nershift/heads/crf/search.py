"""The best and the n best tag sequences of a linear chain, batched: no loop over sentences."""

from __future__ import annotations

import torch
from torch import Tensor

from nershift.heads.crf.arrays import trace


def viterbi(
    emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Best path and its score for each sentence.

    The forward pass keeps best scores only. The way back asks again which predecessor gave the score of the
    one tag it stands on, which costs B·C a step instead of the B·C² of stored back pointers.

    Returns:
        paths [B, L] (0 under padding) and scores [B].
    """
    emissions = emissions.detach().float().masked_fill(~mask[..., None], 0.0)
    moves = transitions.detach().float()
    batch, _, size = emissions.shape
    steps = emissions.transpose(0, 1).contiguous()  # [L, B, C]
    best = torch.empty_like(steps)
    torch.add(steps[0], starts.detach().float(), out=best[0])
    rows = best.unbind(0)
    room = best.new_empty(size, batch, size)  # before × sentence × after: the maximum runs over whole rows
    for before, row, step in zip(rows, rows[1:], steps[1:].unbind(0), strict=False):
        torch.add(before.t()[:, :, None], moves[:, None, :], out=room)
        torch.amax(room, 0, out=row)
        row.add_(step)
    paths, scores = trace(*(x.cpu().numpy() for x in (best, moves, ends.detach().float(), mask)))
    return torch.from_numpy(paths).to(mask.device), torch.from_numpy(scores).to(mask.device)


def n_best(
    emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor, n: int
) -> list[list[tuple[list[int], float]]]:
    """The ``n`` best paths of each sentence with their scores, best first; fewer where fewer are possible.

    A step scored -1e8 or lower counts as impossible.
    """
    floor, none = -1e8, float("-inf")
    emissions = emissions.detach().double().masked_fill(~mask[..., None], 0.0)
    transitions, starts, ends = (
        x.detach().double().masked_fill(x.detach() <= floor, none) for x in (transitions, starts, ends)
    )
    batch, length, size = emissions.shape
    best = emissions.new_full((batch, size, n), none)
    best[..., 0] = emissions[:, 0] + starts
    kept, origins = [best], []
    for t in range(1, length):
        # [B, before, n, after] -> [B, before·n, after] -> the n best for each tag after
        reached = (best[..., None] + transitions[:, None, :]).flatten(1, 2)
        best, origin = _top(reached.transpose(1, 2), n)  # [B, after, n]
        best = best + emissions[:, t, :, None]
        kept.append(best)
        origins.append(origin)
    last = mask.sum(1).clamp(min=1) - 1
    rows = torch.arange(batch, device=mask.device)
    ended = torch.stack(kept, 1)[rows, last] + ends[:, None]  # [B, C, n]
    scores, at = _top(ended.flatten(1), n)  # at: tag·n + rank, [B, n]
    paths = [at // n]
    final = at
    for t in range(length - 2, -1, -1):
        back = origins[t].flatten(1).gather(1, at)
        at = torch.where(mask[:, t + 1, None], back, final)
        paths.append(at // n)
    found = torch.stack(paths[::-1], 2).tolist()  # [B, n, L]
    return [
        [(path[:words], value) for path, value in zip(mine, values, strict=True) if value > none]
        for mine, values, words in zip(found, scores.tolist(), mask.sum(1).tolist(), strict=True)
    ]


def _top(scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """``topk`` along the last axis that fills up with -inf where there are fewer than ``n`` candidates."""
    if scores.shape[-1] < n:
        scores = torch.nn.functional.pad(scores, (0, n - scores.shape[-1]), value=float("-inf"))
    values, where = scores.topk(n, dim=-1)
    return values, where.masked_fill(values == float("-inf"), 0)
