"""From results of experiments to the evidence that `nershift fit` reads: ``python -m experiments evidence``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from experiments.cells import Cell
from experiments.few.tables import SOURCES
from experiments.jobs import corpus
from experiments.store import Result as Run
from nershift.auto.evidence import Result
from nershift.auto.recipe import RECIPES, Recipe
from nershift.config import Config, TrainConfig, to_dict
from nershift.data.corpus import subset
from nershift.data.labels import LabelMapping
from nershift.errors import ConfigError
from nershift.methods import METHODS
from nershift.methods.base import Method
from nershift.run_settings import resolve
from nershift.storage import write_text
from nershift.training.budget import Budget, batch_size

FILE = Path("src/nershift/auto/evidence.jsonl")
ENCODERS = {
    "minilm": 10.6,
    "distilbert-cased": 42.5,
    "mpnet": 84.9,
    "multilingual": 18.9,
    "gemma": 100.3,
}  # millions of weights in their layers
_LENGTH = ("updates", "min_updates", "passes", "epochs", "batch_size", "eval_batch_size")
_MACHINE = ("precision",)  # a choice of where a run happened to be
_LONGER = 1.6  # times the updates of a stage, that still count as the same recipe


def collect(runs: Iterable[Run]) -> list[Result]:
    """The runs that are those of a recipe, as evidence; of several seeds each is a run."""
    rows = [row for run in runs if (row := _as_evidence(run)) is not None]
    return sorted(rows, key=lambda r: (r.target, r.labels, r.sources, r.millions, r.recipe, r.f1))


def write(rows: Iterable[Result], path: Path = FILE) -> None:
    write_text(path, "".join(json.dumps(row.to_dict()) + "\n" for row in rows))


def _as_evidence(run: Run) -> Result | None:
    cell = Cell.of(run.spec)
    if cell.labels != "own" or cell.train_on_dev:
        return None
    try:
        recipe = next((r for r in RECIPES.values() if _is(cell, r, int(run.metrics["labelled"]))), None)
    except ConfigError:  # of a time when other settings existed
        return None
    if recipe is None or ("no labels" not in recipe.needs and cell.shots is None and cell.ratio is None):
        return None
    metrics, encoder, labelled = run.metrics, _encoder(cell), int(run.metrics["labelled"])
    on_cpu = str(metrics.get("device", "")).startswith("cpu")
    spent = metrics.get("cpu_seconds", 0.0) + metrics.get("pretrain_cpu_seconds", 0.0) if on_cpu else 0.0
    return Result(
        recipe.name,
        cell.target,
        labelled,
        round(_shared(cell, labelled), 3),
        ",".join(cell.sources),
        ENCODERS[encoder] if encoder else 0.0,
        round(float(metrics["test"]["f1"]), 4),
        round(spent, 1),
        foreign=any(corpus(name, "own").language != corpus(cell.target, "own").language for name in cell.sources),
    )


def _encoder(cell: Cell) -> str:
    """The pretrained one, of which some tagger takes the word vectors only."""
    settings = cell.config.get("encoder", {})
    return str(settings.get("transformer", {}).get("name", "") or settings.get("words", {}).get("subwords", ""))


def _is(cell: Cell, recipe: Recipe, labelled: int) -> bool:
    """Is this a run of the recipe, or of one that differs in nothing but how long it trains, and that by little?"""
    encoder = _encoder(cell)
    wants = "encoder" in recipe.needs
    if bool(cell.raw) != ("raw text" in recipe.needs) or bool(cell.sources) != ("sources" in recipe.needs):
        return False
    if cell.method != METHODS.canonical(recipe.method) or wants != bool(encoder) or encoder not in ("", *ENCODERS):
        return False
    ours, theirs = resolve(recipe.method, recipe.settings_for(encoder or None)), resolve(cell.method, cell.settings)
    if _without_length(ours) != _without_length(theirs) or theirs.selection not in ("auto", "last"):
        return False
    if cell.sources and not _alike(
        [config.pretrain.updates or config.pretrain.min_updates for config in (ours, theirs)]
    ):
        return False
    trains = METHODS[recipe.method].train is not Method.train
    return not trains or _alike([_updates(config.train, labelled) for config in (ours, theirs)])


def _updates(stage: TrainConfig, sentences: int) -> int:
    return Budget.of(stage, -(-sentences // (stage.batch_size or batch_size(sentences)))).total


def _alike(lengths: Sequence[int]) -> bool:
    return max(lengths) <= _LONGER * min(lengths)


def _without_length(config: Config) -> dict[str, Any]:
    """Settings that decide a result, but for the number of updates, what depends on it, and the machine."""
    values = to_dict(replace(config, seed=0, selection="last"))
    for block in ("pretrain", "train"):
        values[block] = {k: v for k, v in values[block].items() if k not in (*_LENGTH, *_MACHINE)}
    for block in ("pretrain", "train"):  # of stages that the method has
        if getattr(METHODS[config.method], block) is getattr(Method, block):
            values.pop(block)
    return values


def _shared(cell: Cell, labelled: int) -> float:
    """Share of the labelled entities, without labels of the types, that a source has the type of."""
    sources = cell.sources or SOURCES
    if not labelled:
        return _known(Counter(corpus(cell.target, "own").types), sources)
    return shared(cell.target, sources, cell.shots, cell.ratio, cell.seed)


@lru_cache(maxsize=512)
def shared(target: str, sources: tuple[str, ...], shots: int | None, ratio: float | None, seed: int) -> float:
    few = subset(corpus(target, "own").train, shots=shots, ratio=ratio, seed=seed)
    return _known(Counter(span.label for s in few for span in s.spans), sources)


def _known(amounts: Counter[str], sources: Sequence[str]) -> float:
    named = {t for source in sources for t in LabelMapping.between(amounts, corpus(source, "own").types).pairs}
    total = sum(amounts.values())
    return sum(n for t, n in amounts.items() if t in named) / total if total else 0.0
