"""What recipes reached elsewhere, and what that says here.

The evidence is a file of finished runs: a situation, a recipe, its F1 and its seconds. Recipes are compared where they
were run in one and the same situation, so that easy and hard targets cancel out. Then situations are weighed by how
alike they are: labels, shared types, size of the encoder. Nothing here knows a recipe by name.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from nershift.auto.situation import Situation

# How far apart two situations may be and still speak for each other. Chosen by leaving one corpus out.
_LABELS = 0.6  # in powers of ten
_SHARED = 0.6  # share of entities whose type a source has
_ENCODER = 0.9  # in powers of ten of the weights in its layers
_FOREIGN = 0.1  # what a run across languages says of one within a language; a guess until there are such runs
_DOUBT = 0.04  # standard deviation of a recipe's gain before any evidence
_SEED = 0.015  # … that another draw of labels and weights brings, whatever the evidence
_ENOUGH = 1.0  # weight of evidence that counts as much as that doubt


@dataclass(frozen=True)
class Result:
    """A finished run: what there was, which recipe, what came out.

    Attributes:
        labels: labelled sentences.
        shared: as in :class:`~nershift.auto.situation.Situation`.
        sources: their names, joined; empty where the recipe has none.
        millions: weights in the layers of the pretrained encoder; 0: none.
        seconds: of one CPU core; 0: not known, or run on a GPU.
        foreign: the sources are of another language.
    """

    recipe: str
    target: str
    labels: int
    shared: float
    sources: str
    millions: float
    f1: float
    seconds: float = 0.0
    foreign: bool = False

    @property
    def situation(self) -> tuple[str, int]:
        """Runs of one target with as many labels are compared."""
        return self.target, self.labels

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "foreign" or value}


@dataclass(frozen=True)
class Expected:
    """What the evidence says of a recipe, as fractions of 1.

    Attributes:
        gain: F1 beyond what recipes reach here on average.
        doubt: standard deviation of that.
        runs: weight of the evidence, in runs of just this situation.
    """

    gain: float
    doubt: float
    runs: float


def read_evidence(without: Iterable[str] = ()) -> list[Result]:
    """The evidence that comes with the package.

    Args:
        without: corpora whose results are omitted, so that a choice can be judged on them.
    """
    left_out = set(without)
    text = files("nershift.auto").joinpath("evidence.jsonl").read_text(encoding="utf-8")
    rows = (Result(**json.loads(line)) for line in text.splitlines() if line)
    return [row for row in rows if row.target not in left_out]


class Knowledge:
    """Evidence that answers questions about a situation."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = list(results)
        self.gains = _gains(self.results)  # of each run, beyond the level of its situation

    def expect(self, recipe: str, here: Situation) -> Expected:
        """How much better than the others a recipe is likely to be here."""
        rows = [(self._alike(row, here), gain) for row, gain in self.gains if row.recipe == recipe]
        weights, gains = np.array([w for w, _ in rows]), np.array([g for _, g in rows])
        total = float(weights.sum()) if rows else 0.0
        mean = float(weights @ gains) / (total + _ENOUGH) if rows else 0.0  # little evidence: no gain
        spread = float(weights @ (gains - mean) ** 2) if rows else 0.0
        doubt = math.sqrt((spread + _ENOUGH * _DOUBT**2) / (total + _ENOUGH))
        return Expected(mean, math.hypot(doubt, _SEED), total)

    def typical(self, recipe: str, here: Situation) -> float | None:
        """F1 that a recipe reached in situations like this; None where there are none."""
        rows = [(self._alike(row, here), row.f1) for row in self.results if row.recipe == recipe]
        total = sum(weight for weight, _ in rows)
        return sum(weight * f1 for weight, f1 in rows) / total if total > _ENOUGH / 10 else None

    def twice_the_labels(self, recipe: str, here: Situation) -> tuple[float, float] | None:
        """F1 gained by doubling the labels, and its standard deviation over corpora like this one."""
        curves = defaultdict[tuple[str, str, float], dict[int, float]](dict)
        for row in self.results:
            if row.recipe == recipe:
                curves[row.target, row.sources, row.millions][row.labels] = row.f1
        slopes = [
            (
                _near(math.log10(math.sqrt(a * b) / max(here.labelled, 1)) / _LABELS),
                (curve[b] - curve[a]) / math.log2(b / a),
            )
            for curve in curves.values()
            for a, b in zip(sorted(curve), sorted(curve)[1:], strict=False)
            if a > 0
        ]
        total = sum(weight for weight, _ in slopes)
        if total < _ENOUGH:
            return None
        mean = sum(weight * slope for weight, slope in slopes) / total
        return mean, math.sqrt(sum(weight * (slope - mean) ** 2 for weight, slope in slopes) / total)

    def seconds(self, recipe: str, here: Situation) -> float | None:
        """Seconds of one core that a recipe took where labels and encoder were like these; None: not known."""
        rows = [
            (self._alike(row, here), row.seconds * _scale(row.millions, here))
            for row in self.results
            if row.recipe == recipe and row.seconds
        ]
        total = sum(weight for weight, _ in rows)
        return sum(weight * seconds for weight, seconds in rows) / total if total else None

    def _alike(self, row: Result, here: Situation) -> float:
        """From 0 to 1: how much a run elsewhere says about this situation."""
        labels = math.log10((row.labels + 3) / (here.labelled + 3)) / _LABELS
        shared = (row.shared - here.shared) / _SHARED
        size = 0.0
        if row.millions and here.encoder is not None:
            size = math.log10(row.millions / max(here.encoder.millions, 0.1)) / _ENCODER
        language = 1.0 if row.foreign == here.foreign else _FOREIGN
        return _near(labels) * _near(shared) * _near(size) * language


def _near(distance: float) -> float:
    return math.exp(-0.5 * distance**2)


def _scale(millions: float, here: Situation) -> float:
    """How much longer an encoder of another size takes."""
    return here.encoder.millions / millions if millions and here.encoder is not None else 1.0


def _gains(results: Sequence[Result]) -> list[tuple[Result, float]]:
    """F1 of each run beyond the level of its situation.

    Situations lack recipes, and a mean over good ones alone would be too high. So levels of situations and gains of
    recipes are fitted together, by least squares: F1 = level + gain. The gain of a run is what its level leaves.
    """
    by_situation = defaultdict[tuple[str, int], list[Result]](list)
    for row in results:
        by_situation[row.situation].append(row)
    compared = [row for rows in by_situation.values() if len({r.recipe for r in rows}) > 1 for row in rows]
    levels = _numbered(row.situation for row in compared)
    recipes = _numbered(row.recipe for row in compared)
    if not compared:
        return []
    design = np.zeros((len(compared) + 1, len(levels) + len(recipes)))
    for i, row in enumerate(compared):
        design[i, levels[row.situation]] = design[i, len(levels) + recipes[row.recipe]] = 1.0
    design[-1, len(levels) :] = 1.0  # gains add up to zero
    f1 = np.array([*(row.f1 for row in compared), 0.0])
    fitted = np.linalg.lstsq(design, f1, rcond=None)[0]
    return [(row, row.f1 - float(fitted[levels[row.situation]])) for row in compared]


def _numbered(names: Iterable[Any]) -> dict[Any, int]:
    return {name: i for i, name in enumerate(dict.fromkeys(names))}
