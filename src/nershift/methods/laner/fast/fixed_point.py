"""Greedy decoding without going from left to right: parallel passes, repeated until no tag changes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nershift.methods.laner.fast.all_prefixes import AllPrefixes
from nershift.methods.laner.fast.chain import Chain
from nershift.methods.laner.head import LabelAwareHead


@dataclass(frozen=True)
class Greedy:
    tags: Tensor  # [B, L], 0 under padding
    passes: Tensor  # [B]: parallel passes that each sentence took part in


@torch.no_grad()
def fixed_point(head: LabelAwareHead, states: Tensor, mask: Tensor, guess: Tensor | None = None) -> Greedy:
    """The tags of :meth:`LabelAwareHead.greedy`, from a few parallel passes.

    A pass computes each position from the tags guessed before it. Up to and including the first position where result
    and guess differ, the tags read were those of greedy decoding, so the results are its tags too: they are settled
    and never computed again. Results behind that position are the next guess, corrected for the changed tags before
    them (:func:`best_legal`). A sentence is done when result and guess agree. Each pass settles at least one more
    position, whatever the guess and the correction.

    Args:
        guess: ``[B, L]``; by default that of the :class:`Chain`.
    """
    lengths = mask.sum(1).tolist()  # first: later it would wait for all work begun before it
    batch = AllPrefixes.read(head, states, mask)
    chain = Chain.of(batch)
    tags = first_guess(batch, chain) if guess is None else guess.masked_fill(~mask, 0)
    settled, passes = [0] * len(lengths), [0] * len(lengths)
    while rows := [b for b, length in enumerate(lengths) if settled[b] < length]:
        first, last = min(settled[b] for b in rows), max(lengths[b] for b in rows)
        at = torch.tensor(rows, device=mask.device)
        done = torch.tensor([settled[b] for b in rows], device=mask.device)
        part = batch.select(at, last), chain.select(at, last)
        tags[at, :last], places = parallel_pass(*part, tags[at, :last], done, first)
        # One wait for the device per pass: everything the next one needs to know.
        for b, place in zip(rows, places.tolist(), strict=True):
            settled[b], passes[b] = min(place, lengths[b]), passes[b] + 1
    return Greedy(tags, torch.tensor(passes))


def first_guess(batch: AllPrefixes, chain: Chain) -> Tensor:
    """Greedy decoding of the chain, ``[B, L]``; it decides how long decoding takes, not what it finds."""
    tags = torch.zeros(batch.mask.shape, dtype=torch.long, device=batch.mask.device)
    return best_legal(batch, chain, chain.scores(tags), tags, batch.mask, 0)


def parallel_pass(
    batch: AllPrefixes, chain: Chain, known: Tensor, settled: Tensor, first: int = 0
) -> tuple[Tensor, Tensor]:
    """Tags ``[A, n]`` of the positions from ``settled [A]`` on, given ``known``, and how many are settled now, ``[A]``.

    ``first`` is the smallest of ``settled``, or smaller.
    """
    n = known.shape[1]
    open_ = batch.mask & (torch.arange(n, device=known.device) >= settled[:, None])  # [A, n]
    scores = batch.log_probabilities(known, first, open_)
    tags = best_legal(batch, chain, scores, known, open_, first)
    changed = tags != known
    return tags, torch.where(changed.any(1), changed.int().argmax(1) + 1, n)


def best_legal(batch: AllPrefixes, chain: Chain, scores: Tensor, known: Tensor, open_: Tensor, first: int) -> Tensor:
    """Tags ``[A, n]`` with the best legal ones at open positions.

    Scores and legality depend on the tag before, which may itself change; the chain corrects for that. Where it does
    not change, as everywhere behind settled tags, the scores stand as they are.
    """
    scores = batch.head.legal_ends(scores, batch.mask, first)
    best = batch.head.legal_after(scores, known, first).argmax(-1)
    return chain.propagate(scores, best, known, open_, first)
