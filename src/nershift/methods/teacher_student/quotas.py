"""Which of the labelled sentences to learn from: the surest ones, type by type, and others in proportion."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random

from nershift.data.spans import Sentence


def choose(tagged: Sequence[Sentence], keep: float, quotas: bool, empty_share: float, rng: Random) -> list[int]:
    """Places of the sentences to learn from, in order.

    A sentence is as sure as its least sure entity. With ``quotas`` an entity counts by its rank among those of its
    type: types of which the teacher is seldom sure keep as many as the others. Sentences without entities are drawn so
    that their proportion stays that of the text, times ``empty_share``.

    Args:
        tagged: sentences with scored entities.
        keep: share of the sentences with entities.
    """
    filled = [i for i, s in enumerate(tagged) if s.spans]
    empty = [i for i, s in enumerate(tagged) if not s.spans]
    sure = _by_rank(tagged) if quotas else {i: min(span.score or 0.0 for span in tagged[i].spans) for i in filled}
    ranked = sorted(filled, key=lambda i: (-sure[i], i))
    taken = ranked[: max(round(keep * len(ranked)), 1)]
    proportion = len(taken) / len(filled) if filled else 1.0
    drawn = rng.sample(empty, min(round(proportion * empty_share * len(empty)), len(empty)))
    return sorted([*taken, *drawn])


def _by_rank(tagged: Sequence[Sentence]) -> dict[int, float]:
    """For each sentence with entities, the lowest share of its type's entities that one of its own is as sure as."""
    by_type = defaultdict[str, list[tuple[float, int]]](list)
    for i, sentence in enumerate(tagged):
        for span in sentence.spans:
            by_type[span.label].append((span.score or 0.0, i))
    sure = dict[int, float]()
    for entities in by_type.values():
        for rank, (_, i) in enumerate(sorted(entities, key=lambda one: (one[0], -one[1])), 1):
            sure[i] = min(sure.get(i, 1.0), rank / len(entities))
    return sure
