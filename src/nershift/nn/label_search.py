"""Search in an autoregressive tagger: greedy as a fixed point of the parallel pass, and beams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Reading:
    """What a tagger has computed from the tokens of a batch, before any tag: tensors ``[B, L, …]``."""

    parts: Mapping[str, Tensor]
    mask: Tensor

    def of(self, rows: Tensor, length: int) -> Reading:
        """Of some sentences, cut to ``length``."""
        return Reading({k: v[rows, :length] for k, v in self.parts.items()}, self.mask[rows, :length])


class Autoregressive(Protocol):
    """A tagger whose score of a tag depends on the tags before it."""

    def read(self, states: Tensor, mask: Tensor) -> Reading: ...
    def log_probabilities(
        self,
        reading: Reading,
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
    lengths, reading = mask.sum(1), tagger.read(states, mask)
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
        scores = tagger.log_probabilities(reading.of(rows, longest), known, first, last, open_)
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
    rows = torch.arange(batch, device=mask.device).repeat_interleave(width)
    reading = tagger.read(states, mask).of(rows, length)  # [B·W, …]
    tags = torch.zeros(batch, width, length, dtype=torch.long, device=mask.device)
    totals = torch.full((batch, width), float("-inf"), device=mask.device)
    totals[:, 0] = 0.0  # all hypotheses start equal, so only one of them may count
    sentence = torch.arange(batch, device=mask.device)[:, None]
    for i in range(length):
        flat = tags.flatten(0, 1)
        scores = tagger.log_probabilities(reading, flat, i, i + 1)
        scores = tagger.legal(scores, flat, reading.mask, i)[:, 0].unflatten(0, (batch, width))  # [B, W, C]
        over = torch.full_like(scores, float("-inf"))
        over[..., 0] = 0.0  # behind the end there is one way to go on
        scores = torch.where(mask[:, i, None, None], scores, over)
        totals, best = (totals[..., None] + scores).flatten(1).topk(width, dim=1)
        tags = tags[sentence, best // scores.shape[-1]]
        tags[:, :, i] = best % scores.shape[-1]
    return tags[:, 0].masked_fill(~mask, 0)
