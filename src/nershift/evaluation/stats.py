"""How far to trust a score: bootstrap intervals, paired tests on the same sentences, means over seeds.

Everything starts from per-sentence counts ([N, 3]: correct, predicted, gold; ``metrics.sentence_counts``).
Most sentences share their row of counts with many others, and micro-F1 only sees sums of rows. So instead of
drawing sentences one by one, the number of draws from each group of equal rows is drawn (a multinomial for
the bootstrap, binomials for random swaps): the same distribution at a fraction of the work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nershift.errors import DataError

Rows = NDArray[np.int64]  # [N, 3]: correct, predicted, gold


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with an interval that holds the true value in ``level`` of all repetitions."""

    value: float
    low: float
    high: float
    level: float = 0.95

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Comparison:
    """System B against system A on the same sentences; ``difference`` is F1 of B minus F1 of A.

    Both p-values are two-sided: ``p_randomisation`` from swapping the systems' outputs at random,
    ``p_bootstrap`` from the share of resampled test sets on which the difference changes its sign.
    """

    a: Estimate
    b: Estimate
    difference: Estimate
    p_randomisation: float
    p_bootstrap: float
    sentences: int

    @property
    def significant(self) -> bool:
        """Is the difference significant at the level of the intervals, by approximate randomisation?"""
        return self.p_randomisation < 1 - self.difference.level

    def verdict(self, name_a: str = "A", name_b: str = "B") -> str:
        """The outcome in one sentence, with points on the scale of 0 to 100."""
        if self.difference.value == 0:
            return f"{name_a} and {name_b} score the same on these {self.sentences} sentences."
        better, worse = (name_b, name_a) if self.difference.value > 0 else (name_a, name_b)
        points, p = f"{abs(100 * self.difference.value):.2f} F1 points", f"p = {self.p_randomisation:.4f}"
        if self.significant:
            return f"{better} is better than {worse} by {points} ({p})."
        return f"{better} is ahead of {worse} by {points}, which may well be chance ({p})."

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "significant": self.significant}


@dataclass(frozen=True, slots=True)
class SeedSummary:
    """Mean over runs that differ only by seed. With a single run there is no spread to report."""

    mean: float
    sd: float | None
    low: float | None
    high: float | None
    n: int
    level: float = 0.95

    def to_dict(self) -> dict[str, float | int | None]:
        return asdict(self)


def f1_of(sums: NDArray[Any]) -> NDArray[np.float64]:
    """Micro-F1 of summed counts ([..., 3] → [...]), 0 where nothing is predicted and nothing is there."""
    both = sums[..., 1] + sums[..., 2]
    return np.asarray(2.0 * sums[..., 0] / np.maximum(both, 1), dtype=np.float64)


def bootstrap_f1(rows: Rows, samples: int = 1000, seed: int = 0, level: float = 0.95) -> Estimate:
    """Micro-F1 with its percentile bootstrap interval over sentences.

    Example:
        >>> rows = np.array([[1, 1, 1], [0, 1, 1]] * 50)
        >>> estimate = bootstrap_f1(rows)
        >>> estimate.value, estimate.low < 0.5 < estimate.high
        (0.5, True)
    """
    _need_sentences(rows)
    resampled = f1_of(_resample(rows, samples, np.random.default_rng(seed)))
    return _percentile(float(f1_of(rows.sum(axis=0))), resampled, level)


def bootstrap_mean_f1(parts: Sequence[Rows], samples: int = 1000, seed: int = 0, level: float = 0.95) -> Estimate:
    """The mean of several test sets' micro-F1, sentences drawn within each.

    Example:
        >>> right, wrong = np.array([[1, 1, 1]] * 9), np.array([[0, 1, 1]] * 9)
        >>> bootstrap_mean_f1([right, wrong]).value
        0.5
    """
    for rows in parts:
        _need_sentences(rows)
    rng = np.random.default_rng(seed)
    resampled = np.mean([f1_of(_resample(rows, samples, rng)) for rows in parts], axis=0)
    return _percentile(float(np.mean([f1_of(rows.sum(axis=0)) for rows in parts])), resampled, level)


def randomisation_test(a: Rows, b: Rows, permutations: int = 10_000, seed: int = 0) -> float:
    """Two-sided p-value that the micro-F1 of two systems differs, by approximate randomisation.

    Under the null hypothesis either system could have produced either output, so outputs are swapped at
    random, sentence by sentence. Where all swaps are fewer than ``permutations`` they are enumerated, and the
    p-value is exact.
    """
    _need_same_gold(a, b)
    seen = abs(_difference(a.sum(axis=0), b.sum(axis=0)))
    moved = (a != b).any(axis=1)
    if not moved.any():
        return 1.0
    groups, sizes = np.unique(np.concatenate([a[moved], b[moved]], axis=1), axis=0, return_counts=True)
    swing = groups[:, 3:] - groups[:, :3]  # [K, 3]: what one swap adds to A and takes from B
    exact = 2 ** min(int(moved.sum()), 62) <= permutations
    if exact:
        bits = np.arange(2 ** int(moved.sum()))[:, None] >> np.arange(int(moved.sum())) & 1  # [2^n, n]
        shift = bits @ np.repeat(swing, sizes, axis=0)
    else:
        rng = np.random.default_rng(seed)
        shift = rng.binomial(sizes, 0.5, size=(permutations, len(sizes))) @ swing  # [P, K] @ [K, 3]
    swapped = np.abs(f1_of(b.sum(axis=0) - shift) - f1_of(a.sum(axis=0) + shift))
    at_least = int((swapped >= seen - 1e-12).sum())
    return at_least / len(shift) if exact else (at_least + 1) / (permutations + 1)


def paired_bootstrap(
    a: Rows, b: Rows, samples: int = 1000, seed: int = 0, level: float = 0.95
) -> tuple[Estimate, float]:
    """Difference of micro-F1 (B minus A) with its interval, and the two-sided p-value.

    Both systems are scored on the same resampled sentences, so what makes a test set easy or hard for both
    cancels out.
    """
    _need_same_gold(a, b)
    drawn = _resample(np.concatenate([a, b], axis=1), samples, np.random.default_rng(seed))  # [S, 6]
    differences = f1_of(drawn[:, 3:]) - f1_of(drawn[:, :3])
    below, above = int((differences <= 0).sum()), int((differences >= 0).sum())
    p = min(1.0, 2 * (min(below, above) + 1) / (samples + 1))
    return _percentile(_difference(a.sum(axis=0), b.sum(axis=0)), differences, level), p


def compare(
    a: Rows, b: Rows, samples: int = 1000, permutations: int = 10_000, seed: int = 0, level: float = 0.95
) -> Comparison:
    """Everything about two systems on the same sentences; see :class:`Comparison`."""
    difference, p_bootstrap = paired_bootstrap(a, b, samples, seed, level)
    return Comparison(
        a=bootstrap_f1(a, samples, seed, level),
        b=bootstrap_f1(b, samples, seed, level),
        difference=difference,
        p_randomisation=randomisation_test(a, b, permutations, seed),
        p_bootstrap=p_bootstrap,
        sentences=len(a),
    )


def aggregate(values: Sequence[float], level: float = 0.95) -> SeedSummary:
    """Mean, standard deviation (n - 1) and Student t interval of scores from several seeds."""
    if not values:
        raise DataError("no scores to average", expected="at least one run")
    n, mean = len(values), math.fsum(values) / len(values)
    if n == 1:
        return SeedSummary(mean, None, None, None, 1, level)
    sd = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    half = t_quantile((1 + level) / 2, n - 1) * sd / math.sqrt(n)
    return SeedSummary(mean, sd, mean - half, mean + half, n, level)


def seed_difference(a: Sequence[float], b: Sequence[float], matched: bool = False, level: float = 0.95) -> SeedSummary:
    """Mean of B minus mean of A over seeds, with a t interval.

    Args:
        a: Scores of system A, one for each seed.
        b: Scores of system B.
        matched: Run i of both used the same seed and data, so the interval is that of the paired differences.
            Otherwise the interval is Welch's, with the degrees of freedom rounded down.
        level: Coverage of the interval.
    """
    if matched:
        if len(a) != len(b):
            raise DataError(f"{len(a)} runs against {len(b)}", expected="as many runs of A as of B when matched")
        return aggregate([y - x for x, y in zip(a, b, strict=True)], level)
    one, two = aggregate(a, level), aggregate(b, level)
    mean, n = two.mean - one.mean, min(one.n, two.n)
    if one.sd is None or two.sd is None:
        return SeedSummary(mean, None, None, None, n, level)
    va, vb = one.sd**2 / one.n, two.sd**2 / two.n
    error = math.sqrt(va + vb)
    spread = va**2 / (one.n - 1) + vb**2 / (two.n - 1)
    df = max(1, math.floor((va + vb) ** 2 / spread)) if spread else 1
    half = t_quantile((1 + level) / 2, df) * error
    return SeedSummary(mean, math.sqrt(one.sd**2 + two.sd**2), mean - half, mean + half, n, level)


def t_quantile(p: float, df: int) -> float:
    """Quantile of Student's t distribution."""
    from scipy.special import stdtrit  # a fraction of the import time of scipy.stats

    return float(stdtrit(df, p))


def _resample(rows: NDArray[np.int64], samples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Summed counts of ``samples`` bootstrap test sets: [N, C] → [S, C]."""
    groups, sizes = np.unique(rows, axis=0, return_counts=True)  # [K, C], [K]
    drawn = rng.multinomial(len(rows), sizes / len(rows), size=samples)  # [S, K]
    return np.asarray(drawn @ groups, dtype=np.int64)


def _percentile(value: float, resampled: NDArray[np.float64], level: float) -> Estimate:
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, float(low), float(high), level)


def _difference(sum_a: NDArray[np.int64], sum_b: NDArray[np.int64]) -> float:
    return float(f1_of(sum_b) - f1_of(sum_a))


def _need_sentences(rows: Rows) -> None:
    if len(rows) == 0:
        raise DataError("no sentences to score", expected="at least one sentence")


def _need_same_gold(a: Rows, b: Rows) -> None:
    _need_sentences(a)
    if a.shape != b.shape or (a[:, 2] != b[:, 2]).any():
        raise DataError(
            "the two systems were scored on different test data",
            expected="the same sentences with the same gold entities, in the same order",
            fix="run both systems on one test file",
        )
