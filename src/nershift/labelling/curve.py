"""Learning curves on a target: methods × sizes × seeds, one run folder each, so that nothing runs twice."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.errors import ConfigError, SetupError
from nershift.evaluation.stats import SeedSummary, aggregate
from nershift.labelling.power_law import FEWEST, Fit, Reach, fit
from nershift.manifest import MANIFEST
from nershift.methods import METHODS
from nershift.methods.base import Method
from nershift.run import NO_MODEL, pretrain, transfer
from nershift.run_folder import Run

log = logging.getLogger(__name__)

HALVINGS = 4  # sizes by default: all, a half, a quarter, …
_SMALLEST = 8  # sentences of the smallest default size
_GOAL_STEP = 0.05  # default goals: the next multiples of this above what was measured


@dataclass(frozen=True)
class LearningCurve:
    """F1 of one method at several sizes, for several seeds; with one size of 0, a method that needs no labels."""

    method: str
    sizes: tuple[int, ...]
    scores: tuple[tuple[float, ...], ...]  # a row for each seed, a column for each size

    @property
    def summaries(self) -> tuple[SeedSummary, ...]:
        """Mean, standard deviation and interval at each size."""
        return tuple(aggregate(column) for column in zip(*self.scores, strict=True))

    @cached_property
    def fit(self) -> Fit | None:
        """The curve through the scores, or None where there are too few sizes for one."""
        return fit(self.sizes, self.scores) if len(self.sizes) >= FEWEST else None


@dataclass(frozen=True)
class CurveStudy:
    """The learning curves of several methods on one target, and the F1 values to reach."""

    target: str
    split: str  # what was scored
    seeds: tuple[int, ...]
    curves: tuple[LearningCurve, ...]
    goals: tuple[float, ...]
    selected_on: int  # labelled dev sentences that chose the weights, which the sizes do not count; by default none

    def reaches(self, f1: float) -> dict[str, Reach]:
        """What each method that has a fitted curve needs for an F1."""
        return {c.method: c.fit.reach(f1) for c in self.curves if c.fit is not None}

    def to_dict(self) -> dict[str, Any]:
        """The stable JSON shape; all scores are fractions of 1, numbers that do not exist are null."""
        return {
            "version": 1,
            "target": self.target,
            "split": self.split,
            "seeds": list(self.seeds),
            "selected_on": self.selected_on,
            "goals": list(self.goals),
            "curves": [self._curve(c) for c in self.curves],
        }

    def _curve(self, curve: LearningCurve) -> dict[str, Any]:
        columns = zip(curve.sizes, curve.summaries, zip(*curve.scores, strict=True), strict=True)
        points = [{"sentences": n, **summary.to_dict(), "scores": list(scores)} for n, summary, scores in columns]
        fit = curve.fit
        reach = [fit.reach(goal).to_dict() for goal in self.goals] if fit is not None else []
        fitted = fit.to_dict() if fit is not None else None
        return {"method": curve.method, "points": points, "fit": fitted, "reach": reach}


def measure(
    methods: Sequence[str],
    target: Corpus,
    sources: Sequence[Corpus] = (),
    *,
    out: str | Path,
    raw: Mapping[str, Sequence[Sentence]] | None = None,
    sizes: Sequence[int] = (),
    seeds: Sequence[int] = (1, 2, 3),
    goals: Sequence[float] = (),
    config: Mapping[str, Any] | None = None,
    keep_models: bool = False,
    quiet: bool = False,
) -> CurveStudy:
    """Train every method at every size for every seed; what ``out`` already holds is not run again.

    The subsets of a seed are nested and the same for all methods. Scores are those on ``test``, or without a test
    split on ``dev``. A method that learns from sources first does so once for each seed, not for each size.

    Args:
        sizes: numbers of labelled target sentences; by default all, a half, a quarter, … of the train split.
        goals: F1 values to reach, as fractions of 1; by default the next two multiples of five points.
        keep_models: keep the weights of all runs, not only their scores and predictions.

    Raises:
        SetupError, ConfigError: before the first run, when the data or the numbers cannot serve.
    """
    _check(methods, target, seeds, goals)
    for name in methods:
        if METHODS[name].min_sources > len(sources):
            raise SetupError(
                f"method '{name}' was given {len(sources)} source corpora",
                place="--source",
                expected=f"at least {METHODS[name].min_sources}",
                fix="name more corpora after --source, or omit the method",
            )
    chosen = _sizes(sizes, len(target.train))
    split = "test" if target.splits.get("test") else "dev"
    grid = _Grid(target, sources, dict(raw or {}), Path(out) / "runs", dict(config or {}), quiet, keep_models)
    plans = [(METHODS[m], chosen if METHODS[m].uses_target_labels else (0,)) for m in methods]
    total, done, curves = len(seeds) * sum(len(mine) for _, mine in plans), 0, []
    for cls, mine in plans:
        scores = []
        for seed in seeds:
            row = []
            for run in grid.runs(cls, mine, seed):
                done += 1
                row.append(float(run.metrics[split]["f1"]))
                amount = f"{run.metrics['labelled']} sentences" if cls.uses_target_labels else "no target labels"
                log.info("%d of %d: %s, F1 %.2f", done, total, f"{cls.name}, {amount}, seed {seed}", 100 * row[-1])
            scores.append(tuple(row))
        curves.append(LearningCurve(cls.name, mine, tuple(scores)))
    best = max(s.mean for c in curves for s in c.summaries)
    dev = len(target.splits.get("dev", ())) if grid.config.get("selection") == "dev" else 0
    return CurveStudy(target.name, split, tuple(seeds), tuple(curves), tuple(goals) or _goals(best), dev)


@dataclass(frozen=True)
class _Grid:
    """The settings that all runs share, and where they are saved."""

    target: Corpus
    sources: Sequence[Corpus]
    raw: Mapping[str, Sequence[Sentence]]
    folder: Path
    config: Mapping[str, Any]
    quiet: bool
    keep_models: bool

    def runs(self, cls: type[Method], sizes: Sequence[int], seed: int) -> Iterator[Run]:
        """A finished run for each size, smallest first."""
        folders = {n: self.folder / cls.name / f"n{n}-s{seed}" for n in sizes}
        start = self._start(cls, seed) if len(sizes) > 1 else None
        for n, folder in folders.items():
            run = transfer(
                cls.name,
                self.target,
                () if start is not None else self.sources,
                out=folder,
                raw=self.raw,
                shots=n or None,
                start=start,
                config=self.config,
                seed=seed,
                quiet=self.quiet,
                report=False,
            )
            if not self.keep_models:
                (folder / NO_MODEL).touch()
                shutil.rmtree(folder / "state", ignore_errors=True)
                for path in (*folder.glob("*.safetensors"), folder / MANIFEST):
                    path.unlink(missing_ok=True)
            yield run

    def _start(self, cls: type[Method], seed: int) -> Path | None:
        """The pre-training that all sizes share; None where a method pre-trains with the target."""
        folder = self.folder / cls.name / f"pretrained-s{seed}"
        if cls.pretrain is Method.pretrain or not self.sources:
            return None
        try:
            return pretrain(
                cls.name, self.sources, out=folder, raw=self.raw, config=self.config, seed=seed, quiet=self.quiet
            )
        except SetupError:  # it wants the target; if something else is wrong, the whole run will say so
            shutil.rmtree(folder, ignore_errors=True)
            return None


def default_sizes(available: int) -> tuple[int, ...]:
    """All sentences, a half, a quarter and so on, smallest first.

    Example:
        >>> default_sizes(200), default_sizes(30)
        ((13, 25, 50, 100, 200), (8, 15, 30))
    """
    halves = {int(available / 2**i + 0.5) for i in range(HALVINGS + 1)}
    return tuple(sorted(n for n in halves if n >= min(_SMALLEST, available)))


def _sizes(requested: Sequence[int], available: int) -> tuple[int, ...]:
    sizes = tuple(sorted(set(requested))) or default_sizes(available)
    if sizes[0] < 1 or sizes[-1] > available:
        raise SetupError(
            f"sizes from {sizes[0]} to {sizes[-1]} were asked of a train split of {available} sentences",
            place="--sizes",
            expected=f"1 to {available}",
        )
    return sizes


def _goals(best: float) -> tuple[float, ...]:
    """The next two multiples of five points above the best mean that are still possible."""
    first = math.floor(best / _GOAL_STEP + 1e-9) + 1
    return tuple(round(k * _GOAL_STEP, 4) for k in (first, first + 1) if k * _GOAL_STEP < 1)


def _check(methods: Sequence[str], target: Corpus, seeds: Sequence[int], goals: Sequence[float]) -> None:
    for name, values in (("method", methods), ("seed", seeds)):
        if not values or len(set(values)) < len(values):
            found = f"found {', '.join(map(str, values)) or 'nothing'}"
            raise ConfigError(found, place=f"--{name}", expected=f"at least one {name}, none twice")
    for goal in goals:
        if not 0 < goal < 1:
            hint = f"write {goal / 100:g} for {goal:g} points" if 1 < goal < 100 else ""
            raise ConfigError(f"found {goal:g}", place="--reach", expected="an F1 between 0 and 1, e.g. 0.8", fix=hint)
    if not target.train:
        raise SetupError(f"corpus '{target.name}' has an empty train split", place="--target")
    if not target.splits.get("test") and not target.splits.get("dev"):
        raise SetupError(
            f"corpus '{target.name}' has neither a test nor a dev split to score on",
            place="--target",
            fix="hold out part of train for dev (--hold-out 0.1), or name the file of the split",
        )
