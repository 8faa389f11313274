"""Which unlabelled sentences to label next: uncertain ones that differ from each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from nershift.data.spans import Sentence
from nershift.errors import ConfigError, SetupError
from nershift.labelling.uncertainty import mean_states, uncertainties
from nershift.tagger.tagger import Tagger
from nershift.text.word_cache import CACHE_BYTES

DIVERSITY = 1.0  # default exponent of the distance
CHUNK = 4096  # sentences of the pool in memory at once
CANDIDATES = 20  # considered for each sentence to choose: those of highest uncertainty
_FEWEST_CANDIDATES = 2000


@dataclass(frozen=True)
class Chosen:
    """A sentence to label. ``sentence`` carries the spans the tagger predicts, with their confidences.

    ``distance`` is that to the nearest sentence labelled or chosen before it, from 0 (same direction) to 1 (opposite,
    or there was none).
    """

    sentence: Sentence
    position: int  # in the pool
    uncertainty: float
    distance: float


@dataclass(frozen=True)
class Choice:
    """The chosen sentences in order, how many were read, and why some could not be chosen (``left_out``)."""

    chosen: tuple[Chosen, ...]
    read: int
    left_out: Counter[str]


def choose(
    tagger: Tagger,
    pool: Sequence[Sentence],
    count: int,
    *,
    labelled: Sequence[Sentence] = (),
    diversity: float = DIVERSITY,
    batch_size: int = 128,
) -> Choice:
    """Choose ``count`` sentences of ``pool`` to label, one after the other, by uncertainty × distance^diversity.

    Uncertainty is :func:`~nershift.labelling.uncertainty.uncertainties`; distance is between mean encoder states, to
    the nearest sentence that is labelled or already chosen. The same tagger and pool give the same choice. Only a few
    thousand sentences of the pool are in memory at once.

    Args:
        pool: sentences; labels they may have are ignored.
        labelled: sentences with labels: never chosen, and the choice keeps its distance from them.
        diversity: exponent of the distance; 0 for uncertainty alone.

    Raises:
        SetupError: the pool has fewer than ``count`` different sentences that are not labelled yet.
    """
    for place, value, least in (("--diversity", diversity, 0), ("--count", count, 1)):
        if value < least:
            raise ConfigError(f"found {value:g}", place=place, expected=f"{least} or more")
    positions, uncertainty, left_out = _survey(tagger, pool, labelled, batch_size)
    if count > len(positions):
        raise SetupError(
            f"{count} sentences were asked of {len(positions)} that can be chosen",
            expected=f"1 to {len(positions)}" if positions else "a pool of sentences without labels",
            fix="ask for fewer, or give more text",
        )
    most = max(_FEWEST_CANDIDATES, CANDIDATES * count)
    kept = uncertainty.sort(descending=True, stable=True).indices[:most].sort().values
    uncertainty = uncertainty[kept]
    candidates = [pool[positions[i]] for i in kept.tolist()]
    vectors = mean_states(tagger.model, tagger.key, candidates, batch_size)
    centre = vectors.mean(0)
    known = normalize(mean_states(tagger.model, tagger.key, labelled, batch_size) - centre, dim=-1)
    picked, distances = spread(normalize(vectors - centre, dim=-1), uncertainty, count, known, diversity)
    tagged = tagger.tag_sentences([candidates[i] for i in picked], batch_size)
    chosen = (
        Chosen(sentence, positions[int(kept[i])], float(uncertainty[i]), distance)
        for sentence, i, distance in zip(tagged, picked, distances, strict=True)
    )
    return Choice(tuple(chosen), len(pool), left_out)


def spread(
    vectors: Tensor, weights: Tensor, count: int, known: Tensor, power: float = 1.0
) -> tuple[list[int], list[float]]:
    """Greedy choice by weight × distance to the nearest vector known or chosen before; ties go to the first.

    Args:
        vectors: unit vectors, [N, H].
        weights: [N].
        known: unit vectors that count as chosen from the start, [K, H].
        power: of the distance, which is (1 - cosine) / 2.

    Returns:
        Rows in the order of choice, and their distances at that time.

    Example:
        >>> points = normalize(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]))
        >>> spread(points, torch.tensor([1.0, 0.9, 0.5]), 2, points[:0])[0]
        [0, 2]
    """
    distance = torch.ones(len(vectors), device=vectors.device)
    for start in range(0, len(known), CHUNK):
        nearest = (vectors @ known[start : start + CHUNK].T).amax(1)
        distance = torch.minimum(distance, (1 - nearest) / 2)
    weights = weights.to(vectors.device)
    rows, at = [], []
    free = torch.ones(len(vectors), dtype=torch.bool, device=vectors.device)
    for _ in range(count):
        worth = (weights * distance.clamp(min=0) ** power).masked_fill(~free, -1.0)
        # argmax may return any of several equal maxima; the first is the same everywhere.
        best = int((worth == worth.max()).nonzero()[0])
        rows.append(best)
        at.append(max(0.0, float(distance[best])))
        free[best] = False
        distance = torch.minimum(distance, (1 - vectors @ vectors[best]) / 2)
    return rows, at


def _survey(
    tagger: Tagger, pool: Sequence[Sentence], labelled: Sequence[Sentence], batch_size: int
) -> tuple[list[int], Tensor, Counter[str]]:
    """Positions and uncertainties of the sentences that can be chosen, and why others cannot."""
    known = {s.tokens for s in labelled}
    seen: set[int] = set()  # hashes: the pool may not fit into memory
    positions: list[int] = []
    parts: list[Tensor] = []
    left_out: Counter[str] = Counter()
    for start in range(0, len(pool), CHUNK):
        fresh = []
        for i, sentence in enumerate(pool[start : start + CHUNK], start):
            mark = hash(sentence.tokens)
            reason = (
                "without tokens" if not sentence.tokens
                else "already labelled" if sentence.tokens in known
                else "repeated" if mark in seen
                else ""
            )  # fmt: skip
            seen.add(mark)
            if reason:
                left_out[reason] += 1
            else:
                fresh.append((i, sentence))
        positions += [i for i, _ in fresh]
        parts.append(uncertainties(tagger.model, tagger.key, [s for _, s in fresh], batch_size))
        tagger.model.encoder.forget_beyond(CACHE_BYTES)
    return positions, torch.cat(parts) if parts else torch.zeros(0), left_out
