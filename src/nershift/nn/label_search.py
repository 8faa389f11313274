"""Search in an autoregressive tagger: greedy as a fixed point of the parallel pass, and beams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Autoregressive(Protocol):
    """A tagger whose score of a tag depends on the tags before it."""

    def log_probabilities(
        self,
        states: Tensor,
        mask: Tensor,
        tags: Tensor,
        first: int = 0,
        last: int | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor: ...
    def legal(self, scores: Tensor, tags: Tensor, mask: Tensor, first: int) -> Tensor: ...
    def guess(self, states: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Greedy:
    tags: Tensor  # [B, L], 0 under padding
    passes: Tensor  # [B]: parallel passes that each sentence took part in


@torch.no_grad()
def fixed_point(
    tagger: Autoregressive,
    states: Tensor,
    mask: Tensor,
    guess: Tensor | None = None,
    window: int | None = None,
) -> Greedy:
    """The tags of greedy decoding from left to right, without going from left to right.

    A pass computes each position from the tags that are guessed before it. Up to and including the first position
    where result and guess differ, the tags read were those of greedy decoding, so the results are its tags too:
    they are settled and never computed again. Results behind that position are the next guess. A sentence is done
    when result and guess agree; each pass settles at least one more position, whatever the guess.

    Args:
        guess: ``[B, L]``; by default the tagger's own.
        window: positions behind the settled ones that a pass computes; None: all. A GPU takes all in the time of
            some; on a CPU a small window wastes less on positions that a wrong guess before them spoils.
    """
    lengths = mask.sum(1)
    tags = (tagger.guess(states) if guess is None else guess).masked_fill(~mask, 0)
    settled, passes = torch.zeros_like(lengths), torch.zeros_like(lengths)
    rows = lengths.nonzero()[:, 0]
    while len(rows):
        done, end = settled[rows], lengths[rows]
        until = end if window is None else torch.minimum(done + window, end)
        first, last, longest = torch.stack(
            [done.min(), until.max(), end.max()]
        ).tolist()  # the pass's one wait
        passes[rows] += 1
        shown, known = mask[rows, :longest], tags[rows, :longest]
        at = torch.arange(longest, device=mask.device)
        open_ = (at >= done[:, None]) & (at < until[:, None])  # [A, longest]
        scores = tagger.log_probabilities(states[rows, :longest], shown, known, first, last, open_)
        found = tagger.legal(scores, known, shown, first).argmax(-1)  # [A, last - first]
        open_, before = open_[:, first:last], known[:, first:last]
        wrong = open_ & (found != before)
        tags[rows, first:last] = torch.where(open_, found, before)
        settled[rows] = torch.where(wrong.any(1), first + wrong.int().argmax(1) + 1, until)
        rows = rows[settled[rows] < lengths[rows]]
    return Greedy(tags, passes)


@torch.no_grad()
def beam(tagger: Autoregressive, states: Tensor, mask: Tensor, width: int) -> Tensor:
    """The most probable of the ``width`` sequences kept at each position: tags ``[B, L]``, 0 under padding."""
    batch, length = mask.shape
    wide_states, wide_mask = states.repeat_interleave(width, 0), mask.repeat_interleave(width, 0)  # [B·W, …]
    tags = torch.zeros(batch, width, length, dtype=torch.long, device=mask.device)
    totals = torch.full((batch, width), float("-inf"), device=mask.device)
    totals[:, 0] = 0.0  # all hypotheses start equal, so only one of them may count
    sentence = torch.arange(batch, device=mask.device)[:, None]
    for i in range(length):
        flat = tags.flatten(0, 1)
        scores = tagger.log_probabilities(wide_states, wide_mask, flat, i, i + 1)
        scores = tagger.legal(scores, flat, wide_mask, i)[:, 0].unflatten(0, (batch, width))  # [B, W, C]
        over = torch.full_like(scores, float("-inf"))
        over[..., 0] = 0.0  # behind the end there is one way to go on
        scores = torch.where(mask[:, i, None, None], scores, over)
        totals, best = (totals[..., None] + scores).flatten(1).topk(width, dim=1)
        tags = tags[sentence, best // scores.shape[-1]]
        tags[:, :, i] = best % scores.shape[-1]
    return tags[:, 0].masked_fill(~mask, 0)
