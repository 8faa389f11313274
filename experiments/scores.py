"""Results by row and column of a table, and the tests that compare one row with the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from experiments.cells import Cell
from experiments.store import Result, ResultStore
from experiments.table import Place, Table
from nershift.evaluation.stats import SeedSummary, aggregate, f1_of, randomisation_test

Verdict = Literal["reproduced", "refuted", "open"]


@dataclass(frozen=True)
class Runs:
    """The runs at one place of a table; scores from 0 to 100.

    ``oracle`` are F1 of epochs chosen with a look at test, where runs kept them; ``lacking`` counts runs, older
    than what the table shows, that did not keep it.
    """

    scores: tuple[float, ...]
    counts: tuple[np.ndarray, ...]
    oracle: tuple[float, ...] = ()
    metrics: tuple[Mapping[str, Any], ...] = ()
    cells: tuple[Cell, ...] = ()
    lacking: int = 0

    @property
    def summary(self) -> SeedSummary | None:
        return aggregate(self.scores) if self.scores else None

    @property
    def seeds(self) -> list[int]:
        return [cell.seed for cell in self.cells]

    def of_seeds(self, seeds: Collection[int]) -> Runs:
        """Only the scores and cells of these seeds, ordered by seed."""
        chosen = sorted((cell.seed, i) for i, cell in enumerate(self.cells) if cell.seed in seeds)
        return Runs(tuple(self.scores[i] for _, i in chosen), (), cells=tuple(self.cells[i] for _, i in chosen))

    @property
    def testable(self) -> bool:
        """Do the counts give the score that is shown? Only then can it be tested."""
        return bool(self.scores) and all(
            abs(score - 100 * float(f1_of(rows.sum(0)))) < 0.01
            for score, rows in zip(self.scores, self.counts, strict=True)
        )


@dataclass(frozen=True)
class Against:
    """A row minus the best of the others in one column, with a paired test over all sentences of all seeds."""

    row: str
    difference: float
    p: float | None


def collect(table: Table, store: ResultStore, seeds: Sequence[int] | None = None) -> dict[Place, Runs]:
    """Runs by (row, column). Places without runs are empty, not absent."""
    runs_at: dict[Place, list[tuple[float, Result, Cell]]] = {}
    lacking: Counter[Place] = Counter()
    for cell in table.cells(seeds or table.seeds):
        result = store.get(cell)
        for place, part in zip(table.places(cell), table.parts, strict=True):
            runs = runs_at.setdefault(place, [])
            if result is None:
                continue
            try:
                runs.append((100 * float(table.value(result.metrics, part)), result, cell))
            except KeyError:
                lacking[place] += 1
    return {
        place: Runs(
            tuple(value for value, _, _ in runs),
            tuple(result.counts for _, result, _ in runs),
            tuple(x for _, result, _ in runs if (x := _oracle(result.metrics)) is not None),
            tuple(result.metrics for _, result, _ in runs),
            tuple(cell for _, _, cell in runs),
            lacking[place],
        )
        for place, runs in runs_at.items()
    }


def _oracle(metrics: Mapping[str, Any]) -> float | None:
    score = metrics.get("test_oracle")
    if isinstance(score, Mapping):
        score = score.get("f1")
    return 100 * float(score) if isinstance(score, int | float) else None


def row_means(table: Table, shown: Mapping[Place, Runs]) -> dict[str, Runs]:
    """Mean over columns per seed, for the seeds that all columns of a row have; ``cells`` says which."""
    rows, columns = table.layout()
    out = {}
    for row in rows:
        per_column = [shown[row, column] for column in columns if (row, column) in shown]
        shared = set[int]()
        if len(per_column) == len(columns):
            shared = set.intersection(*(set(place.seeds) for place in per_column))
        chosen = [place.of_seeds(shared) for place in per_column]
        means = tuple(float(np.mean(s)) for s in zip(*(place.scores for place in chosen), strict=True))
        out[row] = Runs(means, (), cells=chosen[0].cells if means else ())
    return out


def against_best(shown: Mapping[Place, Runs], ours: str, column: str, rows: Sequence[str]) -> Against | None:
    """``ours`` against the best other row of a column; None where either was not run."""
    mine = shown.get((ours, column))
    others = [
        (row, place) for row in rows if row != ours and (place := shown.get((row, column))) is not None and place.scores
    ]
    if mine is None or not mine.scores or not others:
        return None
    best, theirs = max(others, key=lambda item: float(np.mean(item[1].scores)))
    difference = float(np.mean(mine.scores) - np.mean(theirs.scores))
    return Against(best, difference, paired_p(mine, theirs))


def verdict(gain_interval: tuple[float | None, float | None], published_gain: float) -> Verdict:
    """What an interval of our gain says about a paper's.

    ``reproduced``: at least half of it; ``refuted``: less than half; ``open``: the interval has room for both, or there
    is none.

    Example:
        >>> verdict((1.2, 2.8), 2.0), verdict((-0.5, 0.9), 2.0), verdict((-0.5, 1.1), 2.0)
        ('reproduced', 'refuted', 'open')
    """
    low, high = gain_interval
    if low is not None and low >= published_gain / 2:
        return "reproduced"
    return "refuted" if high is not None and high < published_gain / 2 else "open"


def paired_p(a: Runs, b: Runs) -> float | None:
    """Approximate randomisation over the sentences of all seeds; None if the runs were scored on different ones."""
    same = len(a.counts) == len(b.counts) and all(
        x.shape == y.shape and bool((x[:, 2] == y[:, 2]).all()) for x, y in zip(a.counts, b.counts, strict=True)
    )
    if not (same and a.testable and b.testable):
        return None
    return _randomised(*(np.concatenate(s.counts).astype("<i8").tobytes() for s in (b, a)))


@lru_cache(maxsize=4096)
def _randomised(a: bytes, b: bytes) -> float:
    rows = [np.frombuffer(x, dtype="<i8").reshape(-1, 3) for x in (a, b)]
    return randomisation_test(rows[0], rows[1], permutations=2000)
