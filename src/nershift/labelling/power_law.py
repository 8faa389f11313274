"""A curve through F1 against the number of labelled sentences, and how many of them a given F1 needs.

The curve is ``a - b n^-c``: it rises towards a ceiling ``a``, ever more slowly. Parameters are bounded to what an F1
can do: ``0 <= a <= 1``, ``b >= 0`` (more labels never harm) and a rate ``c`` between 0.05 (almost a straight line
over log n) and 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nershift.errors import DataError
from nershift.evaluation.stats import t_quantile

FEWEST = 3  # sizes that a curve of three parameters needs
_RATES = (0.05, 2.0)
_STEPS = 60  # rates tried in each of two passes
_NORMAL = 1.959964  # what t_quantile(0.975, n) tends to

Floats = NDArray[np.float64]
Where = Literal["below the data", "within the data", "beyond the data", "beyond twice the data", "not reachable"]


@dataclass(frozen=True)
class PowerLaw:
    """``F1(n) = ceiling - drop · n^-rate``.

    Example:
        >>> law = PowerLaw(ceiling=0.9, drop=2.0, rate=0.5)
        >>> round(law(100), 3), round(law.needed(0.8)), law.needed(0.9)
        (0.7, 400, inf)
    """

    ceiling: float
    drop: float
    rate: float

    def __call__(self, n: float) -> float:
        return max(0.0, self.ceiling - self.drop * float(n) ** -self.rate)

    def needed(self, f1: float) -> float:
        """Sentences at which the curve reaches an F1, at least one; infinite where it never does."""
        if self.drop == 0:
            return 1.0 if f1 <= self.ceiling else math.inf
        if f1 >= self.ceiling:
            return math.inf
        try:
            return max(1.0, (self.drop / (self.ceiling - f1)) ** (1 / self.rate))
        except OverflowError:
            return math.inf


@dataclass(frozen=True)
class Reach:
    """How many sentences an F1 needs by a curve. ``low`` and ``high`` are None with one seed, or infinite.

    ``share`` is the part of the bootstrapped curves that get there at all.
    """

    f1: float
    sentences: float
    where: Where
    low: float | None = None
    high: float | None = None
    share: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON values; None stands for a number that does not exist."""
        numbers = {"sentences": self.sentences, "low": self.low, "high": self.high}
        finite = {k: v if v is not None and math.isfinite(v) else None for k, v in numbers.items()}
        return {"f1": self.f1, "where": self.where, "share": self.share, **finite}


@dataclass(frozen=True)
class Fit:
    """The curve through the means of all seeds, and one through each bootstrap sample of the seeds."""

    sizes: tuple[int, ...]
    law: PowerLaw
    means: Floats  # [K]
    samples: tuple[PowerLaw, ...]  # empty with one seed
    sampled: Floats  # the means that each of these goes through, [R, K]

    @property
    def largest(self) -> int:
        return max(self.sizes)

    @property
    def error(self) -> float:
        """Root mean square distance between means and curve."""
        return float(np.sqrt(np.mean([(self.law(n) - y) ** 2 for n, y in zip(self.sizes, self.means, strict=True)])))

    def at(self, n: float) -> tuple[float, float | None, float | None]:
        """F1 at ``n`` sentences with its 95 % interval."""
        return self.law(n), *_interval([law(n) for law in self.samples])

    def reach(self, f1: float) -> Reach:
        """What it takes to reach an F1; how far the answer lies from what was measured is said in ``where``.

        Measured scores come first: a size from which on all means are as high is enough, whatever the curve says.
        """
        needed = self._needed(self.law, self.means, f1)
        where: Where = "within the data"
        if math.isinf(needed):
            where = "not reachable"
        elif needed > 2 * self.largest:
            where = "beyond twice the data"
        elif needed > self.largest:
            where = "beyond the data"
        elif needed < min(self.sizes):
            where = "below the data"
        drawn = [self._needed(law, row, f1) for law, row in zip(self.samples, self.sampled, strict=True)]
        share = float(np.mean(np.isfinite(drawn))) if drawn else None
        return Reach(f1, needed, where, *_interval(drawn), share)

    def _needed(self, law: PowerLaw, means: Floats, f1: float) -> float:
        enough = math.inf
        for n, mean in sorted(zip(self.sizes, means.tolist(), strict=True), reverse=True):
            if mean < f1:
                break
            enough = n
        return min(enough, law.needed(f1))

    def to_dict(self) -> dict[str, Any]:
        double = 2 * self.largest
        return {
            **{k: round(v, 6) for k, v in vars(self.law).items()},
            "error": round(self.error, 6),
            "samples": len(self.samples),
            "at_twice_the_data": dict(zip(("f1", "low", "high"), self.at(double), strict=True)),
        }


def fit(sizes: Sequence[int], scores: Sequence[Sequence[float]], samples: int = 1000, seed: int = 0) -> Fit:
    """Least squares through all scores, with a bootstrap over seeds.

    Whole seeds are drawn, since the subsets of one seed are nested and so their scores are correlated. Deviations
    from the mean are widened to those of Student's t; a plain bootstrap of three seeds would be far too confident.

    Args:
        sizes: numbers of labelled sentences, at least three different ones.
        scores: F1 as fractions of 1, a row for each seed, a column for each size.
    """
    table = np.asarray(scores, dtype=np.float64)  # [S, K]
    if len(set(sizes)) < FEWEST or table.shape[1:] != (len(sizes),):
        raise DataError(
            f"{len(set(sizes))} sizes with scores of shape {table.shape}",
            expected=f"at least {FEWEST} different sizes, and a score of each seed for each of them",
            fix="measure more sizes",
        )
    at, means, seeds = np.asarray(sizes, dtype=np.float64), table.mean(0), len(table)
    sampled = np.empty((0, len(sizes)))
    if seeds > 1:
        rows = np.random.default_rng(seed).integers(seeds, size=(samples, seeds))
        widen = math.sqrt(seeds / (seeds - 1)) * t_quantile(0.975, seeds - 1) / _NORMAL
        spread = means + widen * (table[rows].mean(1) - means)  # [R, K]
        sampled = np.clip(spread, 0.0, 1.0)
    law, *others = _fit_rows(at, np.concatenate([means[None], sampled]))
    return Fit(tuple(sizes), law, means, tuple(others), sampled)


def _fit_rows(sizes: Floats, rows: Floats) -> list[PowerLaw]:
    """The best curve for each row of ``[R, K]``: all rates on a grid, then on a finer one around the best."""
    low, high = (np.full(len(rows), math.log(rate)) for rate in _RATES)
    unit = sizes / sizes.min()  # n^-c of large numbers would all be alike to the solver
    for _ in range(2):
        grid = np.exp(np.linspace(low, high, _STEPS, axis=1))  # [R, G]
        ceilings, drops, errors = _given_rates(unit[None, None] ** -grid[..., None], rows)
        best = errors.argmin(1)
        step = (high - low) / (_STEPS - 1)
        middle = np.log(grid[np.arange(len(rows)), best])
        low = np.maximum(middle - step, math.log(_RATES[0]))
        high = np.minimum(middle + step, math.log(_RATES[1]))
    at = np.arange(len(rows)), best
    first = float(sizes.min())
    return [
        PowerLaw(float(a), float(b * first**c), float(c))
        for a, b, c in zip(ceilings[at], drops[at], grid[at], strict=True)
    ]


def _given_rates(x: Floats, rows: Floats) -> tuple[Floats, Floats, Floats]:
    """Ceiling, drop and squared error (each [R, G]) of the best ``a - b x`` with ``0 <= a <= 1`` and ``b >= 0``.

    With two unknowns the best point is the free one, or lies on an edge of what is allowed: all are tried.

    Args:
        x: ``n^-c``, [R, G, K].
        rows: [R, K].
    """
    y = rows[:, None]  # [R, 1, K]
    mean_x, mean_y = x.mean(-1), y.mean(-1)
    deviation = x - mean_x[..., None]
    free_b = -(deviation * y).sum(-1) / np.maximum((deviation**2).sum(-1), 1e-30)
    free_a = mean_y + free_b * mean_x
    full_b = np.maximum((x * (1.0 - y)).sum(-1) / (x**2).sum(-1), 0.0)
    flat_a = np.broadcast_to(np.clip(mean_y, 0.0, 1.0), free_a.shape)
    options = [(free_a, free_b), (np.ones_like(free_a), full_b), (flat_a, np.zeros_like(free_a))]
    a, b = (np.stack([option[i] for option in options]) for i in range(2))  # [3, R, G]
    errors = ((a[..., None] - b[..., None] * x - y) ** 2).sum(-1)
    errors = np.where((a >= 0) & (a <= 1) & (b >= 0), errors, np.inf)
    best = errors.argmin(0)[None]
    a, b, errors = (np.take_along_axis(v, best, 0)[0] for v in (a, b, errors))
    return a, b, errors


def _interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The middle 95 %; by rank, since some values may be infinite."""
    if not values:
        return None, None
    ordered = sorted(values)
    ends = (math.floor(0.025 * len(ordered)), math.ceil(0.975 * len(ordered)) - 1)
    return ordered[ends[0]], ordered[max(ends)]
