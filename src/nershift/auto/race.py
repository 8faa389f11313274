"""Which recipe is best, from what elsewhere says and what is measured here: rounds that fewer and fewer take part in.

A trial is a part of the labels that is held out (or a dev split, or without labels a source that plays the target).
In each round the recipes that are left run more trials. After it each has a belief, the evidence of other corpora
weighed with its scores here, and the half that is believed worse leaves. Small trials cannot mislead much, since the
evidence holds against them; large ones decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nershift.auto.evidence import Expected
from nershift.data.spans import Sentence
from nershift.evaluation.metrics import sentence_counts
from nershift.evaluation.stats import Estimate, bootstrap_f1, f1_of

Rows = NDArray[np.int64]  # [sentences, 3]: correct, predicted, gold
_TRAINING_NOISE = 0.015  # standard deviation of F1 that another seed brings to one training
_HOPELESS = 0.05  # probability of being the best below which a recipe leaves at once
_SAMPLES = 500
_KEPT = 3  # that stay to the end, unless one is hopeless


@dataclass(frozen=True)
class Belief:
    """F1 of a recipe beyond the mean of those it is compared with, as fractions of 1."""

    mean: float
    sd: float

    def beats(self, other: Belief) -> float:
        """Probability of being better."""
        apart = math.hypot(self.sd, other.sd)
        return 0.5 * (1 + math.erf((self.mean - other.mean) / (apart * math.sqrt(2)))) if apart else 0.5


@dataclass
class Runner:
    """A recipe in the race: what was expected of it, and what it predicted in each trial.

    Attributes:
        left: after how many trials it left; None: it is still in.
        failed: why it cannot go on.
    """

    name: str
    expected: Expected
    predictions: dict[int, tuple[Sequence[Sentence], Sequence[Sentence]]] = field(default_factory=dict)
    left: int | None = None
    failed: str = ""

    def leave(self, trials: Sequence[int]) -> None:
        """Be out after these trials; what it ran ahead of them depends on who was quick and is forgotten."""
        self.left = len(trials)
        self.predictions = {t: p for t, p in self.predictions.items() if t in trials}

    def counts(self, trials: Sequence[int]) -> Rows:
        parts = [sentence_counts(*self.predictions[t]) for t in trials]
        return np.concatenate(parts) if parts else np.zeros((0, 3), dtype=np.int64)

    def score(self) -> Estimate | None:
        """F1 over all its trials, with an interval over sentences."""
        rows = self.counts(sorted(self.predictions))
        return bootstrap_f1(rows) if len(rows) else None


def rounds(trials: int) -> list[list[int]]:
    """The trials of each round: one, then twice as many each time.

    Example:
        >>> rounds(5), rounds(1)
        ([[0], [1, 2], [3, 4]], [[0]])
    """
    parts, at, size = [], 0, 1
    while at < trials:
        parts.append(list(range(at, min(at + size, trials))))
        at, size = at + size, 2 * size
    return parts


def beliefs(runners: Sequence[Runner], trials: Sequence[int] | None = None, seed: int = 0) -> dict[str, Belief]:
    """What to believe of each recipe: evidence (a normal prior) and trials that all of them ran, weighed.

    Args:
        trials: those to look at; by default all.
    """
    ran = set.intersection(*(set(r.predictions) for r in runners)) if runners else set()
    common = sorted(ran if trials is None else ran & set(trials))
    prior = np.array([r.expected.gain for r in runners])
    doubt = np.array([r.expected.doubt for r in runners])
    if not common or len(runners) < 2:
        centred = prior - prior.mean() if len(runners) else prior
        return {r.name: Belief(float(m), float(d)) for r, m, d in zip(runners, centred, doubt, strict=True)}
    rows = np.stack([r.counts(common) for r in runners])  # [runners, sentences, 3]
    seen, noise = _measured(rows, len(common), seed)
    precise = 1 / doubt**2 + 1 / noise**2
    mean = ((prior - prior.mean()) / doubt**2 + seen / noise**2) / precise
    return {r.name: Belief(float(m), float(s)) for r, m, s in zip(runners, mean, 1 / np.sqrt(precise), strict=True)}


def _measured(rows: NDArray[np.int64], trials: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """F1 of each beyond the mean of all, and its standard deviation over drawings of the same sentences."""
    rng = np.random.default_rng(seed)
    count = rows.shape[1]
    drawn = rng.multinomial(count, np.full(count, 1 / count), size=_SAMPLES)  # [samples, sentences]
    sums = np.einsum("sn,rnc->rsc", drawn, rows)  # [runners, samples, 3]
    f1 = f1_of(sums)
    apart = f1 - f1.mean(0)
    whole = f1_of(rows.sum(1))
    noise = np.sqrt(apart.var(1) + _TRAINING_NOISE**2 / trials)
    return whole - whole.mean(), noise


def ranked(runners: Sequence[Runner], trials: Sequence[int] | None = None) -> list[Runner]:
    """The best believed first; recipes that failed are not among them."""
    able = [r for r in runners if not r.failed]
    believed = beliefs(able, trials)
    return sorted(able, key=lambda r: (-believed[r.name].mean, r.name))


def after_round(runners: Sequence[Runner], trials: Sequence[int]) -> list[Runner]:
    """Those that stay after a round; the others are told when they left.

    Args:
        trials: those that count: of this round and the rounds before.
    """
    order = ranked(runners, trials)
    believed = beliefs(order, trials)
    keep = max(_KEPT, -(-len(order) // 2))
    best = believed[order[0].name] if order else None
    staying = [r for r in order[:keep] if best is None or believed[r.name].beats(best) >= _HOPELESS or r is order[0]]
    for runner in order:
        if runner not in staying:
            runner.leave(trials)
    return staying


def final_order(runners: Sequence[Runner]) -> list[Runner]:
    """All that did not fail, the winner first: those that stayed before those that left, the latest to leave first."""
    able = [r for r in runners if not r.failed]
    stages = sorted({math.inf if r.left is None else r.left for r in able}, reverse=True)
    return [r for at in stages for r in ranked([x for x in able if (math.inf if x.left is None else x.left) == at])]
