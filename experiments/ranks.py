"""Several systems on several data sets: mean ranks, Friedman's test, and Nemenyi's critical difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nershift.errors import DataError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ranking:
    """Systems by mean rank, best first. Ranks that differ by less than ``difference`` may differ by chance.

    ``p`` is Friedman's: the probability of ranks that differ this much if all systems were the same.
    """

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    datasets: int
    chi2: float
    p: float
    difference: float
    level: float = 0.95

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Maximal sets of neighbours in rank that do not differ significantly."""
        groups: list[tuple[int, int]] = []
        for i in range(len(self.ranks)):
            j = max(k for k, rank in enumerate(self.ranks) if rank - self.ranks[i] < self.difference)
            if j > i and not any(a <= i and j <= b for a, b in groups):
                groups.append((i, j))
        return tuple(self.names[a : b + 1] for a, b in groups)


def rank_systems(scores: Mapping[str, Sequence[float]], level: float = 0.95) -> Ranking:
    """Rank systems by their scores (higher is better) on the same data sets, in the same order.

    Example:
        >>> ranking = rank_systems({"a": [70, 80, 90], "b": [60, 70, 80], "c": [50, 75, 70]})
        >>> ranking.names, [round(r, 2) for r in ranking.ranks]
        (('a', 'b', 'c'), [1.0, 2.33, 2.67])
    """
    from scipy.special import chdtrc
    from scipy.stats import rankdata

    table = np.array([scores[name] for name in scores], dtype=np.float64).T  # [data sets, systems]
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < 2:
        raise DataError("nothing to rank", expected="at least two systems on two data sets")
    ranks = rankdata(-table, axis=1)  # equal scores share the mean of their places
    mean = ranks.mean(0)
    names = list(scores)
    order = sorted(range(len(names)), key=lambda i: (mean[i], i))
    chi2 = friedman(ranks)
    return Ranking(
        tuple(names[i] for i in order),
        tuple(float(mean[i]) for i in order),
        len(table),
        chi2,
        float(chdtrc(len(names) - 1, chi2)),
        critical_difference(len(names), len(table), level),
        level,
    )


def friedman(ranks: Floats) -> float:
    """Friedman's statistic of ranks ``[data sets, systems]``, corrected for ties; 0 where all are tied."""
    n, k = ranks.shape
    between = float(((ranks.sum(0) - n * (k + 1) / 2) ** 2).sum())
    within = float((ranks**2).sum()) - n * k * (k + 1) ** 2 / 4
    return (k - 1) * between / within if within else 0.0


def critical_difference(systems: int, datasets: int, level: float = 0.95) -> float:
    """Nemenyi: how far two mean ranks must lie apart."""
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(level, systems, math.inf)) / math.sqrt(2)
    return q * math.sqrt(systems * (systems + 1) / (6 * datasets))
