"""Is a confidence of 0.9 right nine times in ten? Measured, corrected by one temperature, and put to use.

A tagger gives each entity a probability. Here these *confidences* are compared with the truth (*right*: is the entity
in the gold, with its borders and its type?).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nershift.data.spans import Sentence
from nershift.evaluation.metrics import Predicted, paired

BINS = 10
COLDEST, HOTTEST = -3, 3  # temperatures tried, as powers of two
PRECISIONS = (0.8, 0.9, 0.95, 0.98)
STEPS = 20  # thresholds tried: those that keep 1/20, 2/20, … of the entities
_EVEN = 1e-7  # how near to 0 and 1 a probability may come inside a logarithm

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bin:
    """The entities whose confidences fall into one tenth: how sure, how often right, how many."""

    confidence: float
    accuracy: float
    n: int


@dataclass(frozen=True)
class Reliability:
    """Confidences against the truth. ``ece`` is the mean gap between the two over bins, weighted by bin size."""

    bins: tuple[Bin, ...]
    nll: float

    @property
    def n(self) -> int:
        return sum(b.n for b in self.bins)

    @property
    def ece(self) -> float:
        return sum(b.n * abs(b.confidence - b.accuracy) for b in self.bins) / max(1, self.n)

    def to_dict(self) -> dict[str, Any]:
        """``ece nll n bins``; a bin is [mean confidence, share that is right, number]."""
        rows = [[round(b.confidence, 6), round(b.accuracy, 6), b.n] for b in self.bins]
        return {"ece": round(self.ece, 5), "nll": round(self.nll, 5), "n": self.n, "bins": rows}

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Reliability:
        return cls(tuple(Bin(*b) for b in row["bins"]), row["nll"])


@dataclass(frozen=True)
class Threshold:
    """Entities with at least this ``confidence`` are right with at least ``precision``, at the given ``level``.

    ``found`` is their precision where the threshold was chosen, ``low`` its lower bound, ``kept`` the share of all
    predicted entities that stay. ``confidence`` is None where no threshold guarantees that precision.
    """

    precision: float
    confidence: float | None
    found: float | None = None
    low: float | None = None
    kept: float = 0.0
    level: float = 0.95

    def to_dict(self) -> dict[str, Any]:
        return {k: round(v, 5) if isinstance(v, float) else v for k, v in vars(self).items()}


def confidences_and_truth(gold: Sequence[Sentence], pred: Predicted) -> tuple[Floats, NDArray[np.bool_]]:
    """The confidence of each predicted entity and whether it is right; entities without a score are skipped."""
    scores, right = [], []
    for truth, guess in paired(gold, pred):
        known = {(s.start, s.end, s.label) for s in truth.spans}
        for span in guess.spans:
            if span.score is not None:
                scores.append(span.score)
                right.append((span.start, span.end, span.label) in known)
    return np.array(scores, dtype=np.float64), np.array(right, dtype=bool)


def reliability(confidences: Floats, right: NDArray[np.bool_]) -> Reliability:
    """Ten bins of equal width, without the empty ones.

    Example:
        >>> measured = reliability(np.array([0.95, 0.95, 0.55]), np.array([True, False, True]))
        >>> [(round(b.confidence, 2), b.accuracy, b.n) for b in measured.bins], round(measured.ece, 2)
        ([(0.55, 1.0, 1), (0.95, 0.5, 2)], 0.45)
    """
    at = np.minimum((confidences * BINS).astype(int), BINS - 1)
    bins = []
    for i in range(BINS):
        mine = at == i
        if mine.any():
            bins.append(Bin(float(confidences[mine].mean()), float(right[mine].mean()), int(mine.sum())))
    return Reliability(tuple(bins), log_loss(confidences, right.astype(np.float64)))


def log_loss(confidences: Floats, share: Floats) -> float:
    """Mean negative log-likelihood of the truth; ``share`` is 1 for right, 0 for wrong, or in between."""
    if not len(confidences):
        return 0.0
    p = np.clip(confidences, _EVEN, 1 - _EVEN)
    return float(-(share * np.log(p) + (1 - share) * np.log1p(-p)).mean())


def possible_temperature(value: Any) -> float:
    """A temperature that was read from a file; scores are divided by it."""
    temperature = float(value)
    if not (math.isfinite(temperature) and temperature > 0):
        raise ValueError(f"a temperature of {temperature}; it has to be a positive number")
    return temperature


def fit_temperature(confidences_at: Callable[[float], Floats], right: NDArray[np.bool_]) -> float:
    """The temperature with the lowest log loss.

    The truth is smoothed as by Platt, to (n + 1) / (n + 2) for n right entities and 1 / (m + 2) for m wrong ones:
    ten right ones in a row are no reason for certainty.

    Args:
        confidences_at: confidences of the same entities at a temperature.
        right: which of them are right.
    """
    if not len(right):
        return 1.0
    good = int(right.sum())
    share = np.where(right, (good + 1) / (good + 2), 1 / (len(right) - good + 2))

    def loss(step: float) -> float:
        return log_loss(confidences_at(2.0**step), share)

    # A coarse look over all, in case there are two valleys; then golden sections around the best. (scipy's own stop
    # elsewhere, which would change the confidences of every tagger.)
    best = min(range(COLDEST, HOTTEST + 1), key=loss)
    a, b = float(max(best - 1, COLDEST)), float(min(best + 1, HOTTEST))
    ratio = (math.sqrt(5) - 1) / 2
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    at_c, at_d = loss(c), loss(d)
    while b - a > 0.02:
        if at_c < at_d:
            b, d, at_d = d, c, at_c
            c = b - ratio * (b - a)
            at_c = loss(c)
        else:
            a, c, at_c = c, d, at_d
            d = a + ratio * (b - a)
            at_d = loss(d)
    return float(2.0 ** ((a + b) / 2))


def threshold(confidences: Floats, right: NDArray[np.bool_], precision: float, level: float = 0.95) -> Threshold:
    """The lowest confidence at which precision is at least ``precision``, with probability ``level``.

    Thresholds that keep 1/20, 2/20, … of the entities are tried. Each must pass with an exact binomial bound at a
    twentieth of the allowed error, which corrects for the choice among them.
    """
    nothing = Threshold(precision, None, level=level)
    if not len(confidences):
        return nothing
    order = np.argsort(-confidences, kind="stable")
    ranked, correct = confidences[order], np.cumsum(right[order])
    sizes = sorted({math.ceil(len(ranked) * i / STEPS) for i in range(1, STEPS + 1)}, reverse=True)
    for size in sizes:
        # Entities of equal confidence are kept together.
        n = int(np.searchsorted(-ranked, -ranked[size - 1], side="right"))
        low = binomial_low(int(correct[n - 1]), n, 1 - (1 - level) / STEPS)
        if low >= precision:
            found = float(correct[n - 1]) / n
            return Threshold(precision, float(ranked[n - 1]), found, low, n / len(ranked), level)
    return nothing


def thresholds(
    confidences: Floats, right: NDArray[np.bool_], precisions: Sequence[float] = PRECISIONS
) -> tuple[Threshold, ...]:
    return tuple(threshold(confidences, right, p) for p in precisions)


def binomial_low(correct: int, n: int, level: float = 0.95) -> float:
    """The exact one-sided lower bound of a share (Clopper and Pearson).

    Example:
        >>> round(binomial_low(59, 59), 3)
        0.95
    """
    from scipy.special import betaincinv

    return float(betaincinv(correct, n - correct + 1, 1 - level)) if correct else 0.0


@dataclass(frozen=True)
class Calibration:
    """A temperature with what it did to the confidences on the sentences it was fitted on."""

    temperature: float
    before: Reliability
    after: Reliability
    thresholds: tuple[Threshold, ...]

    def to_dict(self) -> dict[str, Any]:
        """``temperature before after thresholds``; see the parts for theirs."""
        return {
            "temperature": round(self.temperature, 4),
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "thresholds": [t.to_dict() for t in self.thresholds],
        }


def before_and_after(
    gold: Sequence[Sentence], raw: Sequence[Sentence] | None, pred: Sequence[Sentence]
) -> dict[str, Any]:
    """Reliability of predictions without temperature (where there are any such) and with it, as JSON values."""
    given = {"before": raw, "after": pred}
    return {
        name: reliability(*confidences_and_truth(gold, rows)).to_dict()
        for name, rows in given.items()
        if rows is not None
    }
