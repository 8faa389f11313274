"""How far two annotators agree: span F1, and Cohen's kappa over tokens, by type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nershift.data.spans import Sentence
from nershift.evaluation.metrics import Counts, Scores, paired, score


@dataclass(frozen=True)
class Agreement:
    """Two annotations of the same sentences. F1 is the same whichever side counts as gold.

    ``kappa`` is over all types at once, ``kappa_by_type`` over "in an entity of this type, or not". It is None where
    it has no value: both sides gave every token the same one label.

    Example:
        >>> one = [Sentence.of("Ada saw Rome .".split(), [(0, 1, "PER"), (2, 3, "LOC")])]
        >>> other = [Sentence.of("Ada saw Rome .".split(), [(0, 1, "PER")])]
        >>> found = agreement(one, other)
        >>> round(found.spans.f1, 3), found.kappa_by_type["PER"], found.kappa_by_type["LOC"]
        (0.667, 1.0, 0.0)
    """

    spans: Scores
    kappa: float | None
    kappa_by_type: dict[str, float | None]
    tokens: int
    differing: tuple[int, ...]  # numbers of the sentences whose entities differ

    def to_dict(self) -> dict[str, Any]:
        """``rows`` has one for each type and, last, one for all; ``one`` and ``other`` count entities."""
        rows = [_row(label, counts, self.kappa_by_type[label]) for label, counts in self.spans.by_type.items()]
        rows.append(_row("all", self.spans.micro, self.kappa))
        return {"sentences": self.spans.sentences, "tokens": self.tokens, "rows": rows}


def _row(label: str, counts: Counts, kappa: float | None) -> dict[str, Any]:
    shared = {"type": label, "f1": counts.f1, "kappa": kappa}
    return {**shared, "one": counts.support, "other": counts.predicted, "both": counts.correct}


def agreement(one: Sequence[Sentence], other: Sequence[Sentence]) -> Agreement:
    """Compare two annotations of the same sentences; entities are flat.

    Raises:
        DataError: the two sides differ in length, or in the tokens of a sentence.
    """
    spans = score(one, other)
    labels = list(spans.by_type)
    numbers = {label: number for number, label in enumerate(labels, 1)}
    table = np.zeros((len(labels) + 1, len(labels) + 1), dtype=np.int64)  # [one, other]; 0: in no entity
    for ours, theirs in paired(one, other):
        np.add.at(table, (_choices(ours, numbers), _choices(theirs, numbers)), 1)
    by_type = {label: kappa(_against_rest(table, numbers[label])) for label in labels}
    differing = (i for i, (ours, theirs) in enumerate(paired(one, other)) if ours.spans != theirs.spans)
    return Agreement(spans, kappa(table), by_type, int(table.sum()), tuple(differing))


def _choices(sentence: Sentence, numbers: dict[str, int]) -> NDArray[np.int64]:
    choices = np.zeros(len(sentence), dtype=np.int64)
    for span in sentence.spans:
        choices[span.start : span.end] = numbers[span.label]
    return choices


def _against_rest(table: NDArray[np.int64], at: int) -> NDArray[np.int64]:
    """The table of one choice against all others."""
    both, ours, theirs = table[at, at], table[at].sum(), table[:, at].sum()
    return np.array([[table.sum() - ours - theirs + both, theirs - both], [ours - both, both]])


def kappa(table: NDArray[np.int64]) -> float | None:
    """Cohen's kappa of a table that counts what one chose (rows) where the other chose (columns).

    (observed - expected) / (1 - expected): the share of agreement beyond that of two who choose at random, each as
    often as here.
    """
    total = int(table.sum())
    if total == 0:
        return None
    observed = np.trace(table) / total
    expected = float(table.sum(1) @ table.sum(0)) / total**2
    return None if expected == 1.0 else float((observed - expected) / (1 - expected))
