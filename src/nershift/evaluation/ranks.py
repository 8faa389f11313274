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
    """Systems by mean rank, best first. Ranks that differ by less than ``difference`` may well differ by chance.

    ``p`` is Friedman's: how probable ranks as unlike as these are if all systems were the same.
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
        """Largest sets of systems, neighbours in rank, that cannot be told apart."""
        found: list[tuple[int, int]] = []
        for i in range(len(self.ranks)):
            j = max(k for k, rank in enumerate(self.ranks) if rank - self.ranks[i] < self.difference)
            if j > i and not any(a <= i and j <= b for a, b in found):
                found.append((i, j))
        return tuple(self.names[a : b + 1] for a, b in found)


def rank_systems(scores: Mapping[str, Sequence[float]], level: float = 0.95) -> Ranking:
    """Rank systems by their scores (higher is better) on the same data sets, in the same order.

    Example:
        >>> made = rank_systems({"a": [70, 80, 90], "b": [60, 70, 80], "c": [50, 75, 70]})
        >>> made.names, [round(r, 2) for r in made.ranks]
        (('a', 'b', 'c'), [1.0, 2.33, 2.67])
    """
    table = np.array([scores[name] for name in scores], dtype=np.float64).T  # [data sets, systems]
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < 2:
        raise DataError("nothing to rank", expected="at least two systems on two data sets")
    ranks = np.stack([_ranks(-row) for row in table])
    mean = ranks.mean(0)
    names = list(scores)
    order = sorted(range(len(names)), key=lambda i: (mean[i], i))
    chi2 = friedman(ranks)
    return Ranking(
        tuple(names[i] for i in order),
        tuple(float(mean[i]) for i in order),
        len(table),
        chi2,
        chi2_beyond(chi2, len(names) - 1),
        critical_difference(len(names), len(table), level),
        level,
    )


def friedman(ranks: Floats) -> float:
    """Friedman's statistic of ranks ``[data sets, systems]``, corrected for ties; 0 where all are tied."""
    n, k = ranks.shape
    ties = sum(float((c**3 - c).sum()) for c in (np.unique(row, return_counts=True)[1] for row in ranks))
    spread = 1 - ties / (n * k * (k * k - 1))
    if spread <= 0:
        return 0.0
    raw = 12 / (n * k * (k + 1)) * float((ranks.sum(0) ** 2).sum()) - 3 * n * (k + 1)
    return max(0.0, raw / spread)


def critical_difference(systems: int, datasets: int, level: float = 0.95) -> float:
    """Nemenyi: how far two mean ranks must lie apart."""
    q = studentized_range(systems, level) / math.sqrt(2)
    return q * math.sqrt(systems * (systems + 1) / (6 * datasets))


def studentized_range(k: int, level: float) -> float:
    """Quantile of the range of ``k`` standard normal values, by bisection on its integral."""
    z = np.linspace(-8, 8, 4001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    below = _normal(z)
    low, high = 0.0, 20.0
    for _ in range(60):
        q = (low + high) / 2
        within = k * float((density * (below - _normal(z - q)) ** (k - 1)).sum()) * (z[1] - z[0])
        low, high = (q, high) if within < level else (low, q)
    return (low + high) / 2


def chi2_beyond(x: float, df: int) -> float:
    """P(X > x) for a χ² variable of ``df`` degrees of freedom, as a finite sum."""
    if x <= 0:
        return 1.0
    half = x / 2
    if df % 2 == 0:
        terms = (math.exp(-half + i * math.log(half) - math.lgamma(i + 1)) for i in range(df // 2))
        return min(1.0, math.fsum(terms))
    terms = (math.exp(-half + (i - 0.5) * math.log(half) - math.lgamma(i + 0.5)) for i in range(1, (df + 1) // 2))
    return min(1.0, math.erfc(math.sqrt(half)) + math.fsum(terms))


def _ranks(values: Floats) -> Floats:
    """1 for the smallest; equal values share the mean of their places."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place.reshape(-1)], dtype=np.float64)


def _normal(z: Floats) -> Floats:
    return np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in z])
