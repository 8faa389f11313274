"""Search in an autoregressive tagger: greedy as a fixed point of the parallel pass, and beams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from nershift.methods.laner.fast.chain import Chain

ROUNDS = 1  # rough passes that improve a guess, at most
MEMORY = 8  # labels that a rough pass reads backwards


@dataclass(frozen=True)
class Reading:
    """What a tagger has computed before any tag: from the tokens of a batch ``[B, L, …]``, and from none of them."""

    parts: Mapping[str, Tensor]
    mask: Tensor
    tables: Mapping[str, Tensor] = field(default_factory=dict)

    def of(self, rows: Tensor, length: int) -> Reading:
        """Of some sentences, in their order, cut to ``length``."""
        if len(rows) == len(self.mask) and length == self.mask.shape[1]:
            return self
        parts = {k: v[:, :length].index_select(0, rows) for k, v in self.parts.items()}
        return Reading(parts, self.mask[rows, :length], self.tables)


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
        memory: int | None = None,
    ) -> Tensor: ...
    def legal(self, scores: Tensor, tags: Tensor, mask: Tensor, first: int) -> Tensor: ...
    def ending(self, scores: Tensor, mask: Tensor, first: int) -> Tensor: ...
    def following(self, scores: Tensor, tags: Tensor, first: int) -> Tensor: ...
    def chain(self, reading: Reading) -> Chain: ...


@dataclass(frozen=True)
class Greedy:
    tags: Tensor  # [B, L], 0 under padding
    passes: Tensor  # [B]: parallel passes that each sentence took part in
    rounds: Tensor  # [B]: rough passes before these


@torch.no_grad()
def fixed_point(
    tagger: Autoregressive, states: Tensor, mask: Tensor, guess: Tensor | None = None, rounds: int = ROUNDS
) -> Greedy:
    """The tags of greedy decoding from left to right, without going from left to right.

    A pass computes each position from the tags that are guessed before it. Up to and including the first position
    where result and guess differ, the tags read were those of greedy decoding, so the results are its tags too:
    they are settled and never computed again. Results behind that position are the next guess, corrected for the tag
    before having changed (:func:`best_legal`). A sentence is done when result and guess agree; each pass settles at
    least one more position, whatever guess and correction.

    Before that, the tagger as a chain makes the guess, and rough passes that look back over a few labels only bring it
    near the result. They cost little and decide nothing.

    Args:
        guess: ``[B, L]``; by default that of the tagger's chain.
        rounds: rough passes at most.
    """
    lengths = mask.sum(1).tolist()  # first of all: later it would wait for all that was begun before
    reading = tagger.read(states, mask)
    chain = tagger.chain(reading)
    tags = first_guess(tagger, chain, mask) if guess is None else guess.masked_fill(~mask, 0)
    tags, roughly = _improved(tagger, reading, chain, tags, rounds)
    settled, passes = [0] * len(lengths), [0] * len(lengths)
    while rows := [b for b, length in enumerate(lengths) if settled[b] < length]:
        first, last = min(settled[b] for b in rows), max(lengths[b] for b in rows)
        at = torch.tensor(rows, device=mask.device)
        part, linked, known = reading.of(at, last), chain.of(at, last), tags[at, :last]
        done = torch.tensor([settled[b] for b in rows], device=mask.device)
        tags[at, :last], places = exact_pass(tagger, part, linked, known, done, first)
        # One wait a pass: everything that the next one needs to know.
        for b, place in zip(rows, places.tolist(), strict=True):
            settled[b], passes[b] = min(place, lengths[b]), passes[b] + 1
    return Greedy(tags, torch.tensor(passes), roughly)


def _improved(
    tagger: Autoregressive, reading: Reading, chain: Chain, tags: Tensor, rounds: int
) -> tuple[Tensor, Tensor]:
    """The guess after rough passes, and how many each sentence took.

    On a GPU all of them are taken, since to ask whether tags still change means to wait for it.
    """
    mask, count = reading.mask, torch.full((len(tags),), rounds)
    if _waits_cost(mask):
        for _ in range(rounds):
            tags = rough_pass(tagger, reading, chain, tags)
        return tags, count
    rows, tags, count = torch.arange(len(tags)), tags.clone(), torch.zeros_like(count)
    for _ in range(rounds):
        part, known = reading.of(rows, mask.shape[1]), tags[rows]
        found = rough_pass(tagger, part, chain.of(rows, mask.shape[1]), known)
        tags[rows], count[rows] = found, count[rows] + 1
        rows = rows[(found != known).any(1)]
        if not len(rows):
            break
    return tags, count


def rough_pass(tagger: Autoregressive, reading: Reading, chain: Chain, tags: Tensor) -> Tensor:
    """A better guess than ``tags``, from the few labels before each position."""
    scores = tagger.log_probabilities(reading, tags, memory=MEMORY)
    return best_legal(tagger, chain, scores, tags, reading.mask, reading.mask, 0)


def exact_pass(
    tagger: Autoregressive, reading: Reading, chain: Chain, known: Tensor, settled: Tensor, first: int = 0
) -> tuple[Tensor, Tensor]:
    """Tags ``[A, n]`` of the positions from ``settled [A]`` on, given ``known``, and how many are right now, ``[A]``.

    ``first`` is the least of ``settled``, or less.
    """
    n = known.shape[1]
    open_ = reading.mask & (torch.arange(n, device=known.device) >= settled[:, None])  # [A, n]
    scores = tagger.log_probabilities(reading, known, first, n, open_)
    found = best_legal(tagger, chain, scores, known, reading.mask, open_, first)
    wrong = found != known
    return found, torch.where(wrong.any(1), wrong.int().argmax(1) + 1, n)


def _waits_cost(mask: Tensor) -> bool:
    return mask.is_cuda


def first_guess(tagger: Autoregressive, chain: Chain, mask: Tensor) -> Tensor:
    """Greedy decoding of the chain, ``[B, L]``; it decides how long decoding takes, not what it finds."""
    tags = torch.zeros(mask.shape, dtype=torch.long, device=mask.device)
    return best_legal(tagger, chain, chain.scores(tags), tags, mask, mask, 0)


def best_legal(
    tagger: Autoregressive,
    chain: Chain,
    scores: Tensor,
    known: Tensor,
    mask: Tensor,
    open_: Tensor,
    first: int,
) -> Tensor:
    """Tags ``[A, n]`` with the best legal ones at open positions.

    Scores and what is legal depend on the tag before, which may itself change: by how much, the chain tells. Where it
    does not change, which is so wherever the tags before are settled, the scores count as they are.
    """
    scores = tagger.ending(scores, mask, first)
    best = tagger.following(scores, known, first).argmax(-1)
    return chain.carried(scores, best, known, open_, first)


@torch.no_grad()
def step_by_step(tagger: Autoregressive, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Greedy decoding as it is defined, position by position: what :func:`fixed_point` is measured against.

    Returns:
        tags ``[B, L]``, and how far the best tag was ahead of the next at each position, both as padding has it: 0
        and infinity.
    """
    reading = tagger.read(states, mask)
    tags = torch.zeros(mask.shape, dtype=torch.long, device=mask.device)
    ahead = torch.full(mask.shape, float("inf"), device=mask.device)
    for i in range(mask.shape[1]):
        scores = tagger.legal(tagger.log_probabilities(reading, tags, i, i + 1), tags, mask, i)[:, 0]
        best = scores.topk(2, dim=1)
        tags[:, i] = best.indices[:, 0]
        ahead[:, i] = best.values[:, 0] - best.values[:, 1]
    return tags.masked_fill(~mask, 0), ahead.masked_fill(~mask, float("inf"))


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
