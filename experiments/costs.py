"""Estimated cost of a cell from corpus sizes and schedules, corrected by similar cells that have finished.

The unit is seconds of a GPU (without one: of the CPU) that many runs share: the wall time of a run divided by how many
ran at once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import median

import torch

from experiments.cells import Cell
from experiments.store import Result
from nershift.config import Config, TrainConfig
from nershift.data.catalog import catalog
from nershift.encoders.base import ENCODERS
from nershift.encoders.base import Cost as EncoderCost
from nershift.errors import ConfigError
from nershift.methods.laner.head import LabelAwareSettings
from nershift.run_request import HELD_OUT
from nershift.run_settings import resolve
from nershift.training.budget import Budget, batch_size

_UNKNOWN = 5000  # sentences of a corpus whose size is not in the catalog
_HELD_OUT = 0.1
_AT_ONCE = 16  # runs at once, for results that do not say
_EVALUATED = 0.5  # of a batch of the same size that is only decoded
_CPU = 15.0  # what two cores need where such a GPU needs 1
_START = 0.25  # reading files, building and saving a model
# Passes over a batch per step, if not one.
_PASSES = {"metaner": 1.3, "metacross": 5.0}
_SECOND_ORDER = 2.8
_GIB_WALKS = 0.15  # of GPU memory that the walks of a label-aware head add per sentence and 100 units of a label
_GIB_META = 20.0  # meta-learning with a transformer


@dataclass(frozen=True)
class Cost:
    """``steps``: optimiser steps if nothing stops early; ``seconds``: of a shared GPU."""

    steps: int
    seconds: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.steps + other.steps, self.seconds + other.seconds)


@dataclass(frozen=True)
class _Work:
    """A stage: its schedule, the sentences of each sampler, how a step takes from them, what selection reads."""

    config: TrainConfig
    samplers: Sequence[int]
    steps: Callable[[Sequence[int]], int]
    at_once: bool = False  # a step takes a batch of every sampler, else of one
    passes: float = 1.0
    dev: int = 0


@dataclass
class Rates:
    """By which factor finished runs exceeded the estimate, by method, encoder and stage."""

    factors: dict[tuple[str, str, bool], float] = field(default_factory=dict)
    unknown: float = 1.0  # where no run with that encoder has finished

    @classmethod
    def learn(cls, results: Iterable[Result], device: str = "") -> Rates:
        """From every run on this kind of device; default: the one that runs here would have."""
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        seen: dict[tuple[str, str, bool], list[float]] = defaultdict(list)
        for result in results:
            metrics = result.metrics
            if not str(metrics.get("device", "")).startswith(device):
                continue
            cell = Cell.of(result.spec, joint=metrics.get("data", {}).get("start") is None)
            together = result.origin.get("at_once", _AT_ONCE)
            times = {False: metrics.get("seconds"), True: metrics.get("pretrain_seconds")}
            for pretrain, seconds in times.items():
                with suppress(ConfigError):  # a method or setting that no longer exists
                    if seconds:
                        expected = estimate(cell, pretrain=pretrain).seconds
                        seen[_kind(cell, pretrain)].append(seconds / together / expected)
        return cls({kind: median(ratios) for kind, ratios in seen.items()}, _CPU if device == "cpu" else 1.0)

    def __call__(self, cell: Cell, *, pretrain: bool = False) -> Cost:
        plain = estimate(cell, pretrain=pretrain)
        kind = _kind(cell, pretrain)
        alike = [f for k, f in self.factors.items() if k[1] == kind[1]]
        factor = self.factors.get(kind) or (median(alike) if alike else self.unknown)
        return Cost(plain.steps, plain.seconds * factor)


def total(cells: Iterable[Cell], rates: Rates) -> Cost:
    """Cost of all distinct cells and the pre-trainings they share."""
    distinct = {c.key: c for c in cells}
    shared = {c.pretraining: c for c in distinct.values() if c.pretraining}
    parts = [rates(c) for c in distinct.values()] + [rates(c, pretrain=True) for c in shared.values()]
    return sum(parts, Cost(0, 0.0))


def estimate(cell: Cell, *, pretrain: bool = False) -> Cost:
    """The cost of a cell, or of the pre-training that it shares; a joint cell pays for both stages."""
    config = config_of(cell)
    first, second = _phases(cell, config)
    chosen = [first] if pretrain else [second] if cell.pretraining else [first, second]
    cost = Cost(0, _START)
    for work in chosen:
        if work is not None and any(work.samplers):
            cost += _phase_cost(work, _encoder(config))
    if not pretrain:
        adapted = 20.0 if cell.method == "metacross" else 1.0  # a step of its own for every test sentence
        cost += Cost(0, adapted * _decoding(_size(cell.target, "test"), config.train, _encoder(config)))
    return cost


def gpu_memory(cell: Cell, *, pretrain: bool = False) -> float:
    """GPU memory in GiB of a cell, or of the pre-training that it shares."""
    config = config_of(cell)
    if cell.pretrained_by == "metacross":
        return _GIB_META
    stages = [config.pretrain] if pretrain else [config.train]
    if cell.pretraining is None and cell.sources:
        stages.append(config.pretrain)
    encoder = _encoder(config)
    sentence = encoder.gib_per_sentence
    if config.head.kind == "label-aware":
        # A method of its own (laner) has the head's settings among its options.
        label_size = (config.options | config.head.options).get("label_size", LabelAwareSettings().label_size)
        sentence += _GIB_WALKS * label_size / 100
    return encoder.parts * (encoder.gib + sentence * max(stage.batch_size for stage in stages))


def config_of(cell: Cell) -> Config:
    """The cell's settings, batch sizes that were left to the amount of data filled in."""
    config = _resolved(cell.method, json.dumps(cell.settings, sort_keys=True))
    return replace(
        config,
        train=_with_batches(config.train, _labelled(cell)),
        pretrain=_with_batches(config.pretrain, sum(_size(s) for s in cell.sources)),
    )


def _with_batches(stage: TrainConfig, sentences: int) -> TrainConfig:
    return stage if stage.batch_size else replace(stage, batch_size=batch_size(sentences))


@lru_cache(maxsize=4096)
def _resolved(method: str, config: str) -> Config:
    return resolve(method, json.loads(config))


def _encoder(config: Config) -> EncoderCost:
    return ENCODERS[config.encoder.kind].cost(config.encoder)


def _phase_cost(work: _Work, encoder: EncoderCost) -> Cost:
    config = work.config
    counts = [-(-n // config.batch_size) for n in work.samplers if n]
    drawn = len(counts) if work.at_once else 1  # batches of a step
    budget = Budget.of(config, max(1, work.steps(counts)), work.dev, drawn * config.batch_size * config.accumulate)
    batches = budget.total * drawn * work.passes * config.accumulate
    if config.fgm_epsilon:
        batches *= 2
    # A recurrent layer waits for its own steps whatever the batch holds; a transformer's work grows with it.
    grows = 1.0 if encoder.sequential else config.batch_size / 32
    evaluations = -(-budget.total // budget.every) if budget.total else 0
    seconds = batches * grows * encoder.seconds + evaluations * _decoding(work.dev, config, encoder)
    return Cost(config.model_soup * budget.total, config.model_soup * seconds)


def _decoding(sentences: int, config: TrainConfig, encoder: EncoderCost) -> float:
    grows = 2.0 if encoder.sequential else config.eval_batch_size / 32
    return _EVALUATED * grows * encoder.seconds * -(-sentences // config.eval_batch_size)


def _phases(cell: Cell, config: Config) -> tuple[_Work | None, _Work | None]:
    """What pre-training and training do, as the methods set them up."""
    base, options = cell.pretrained_by, config.options
    sources, own = [_size(s) for s in cell.sources], _labelled(cell)
    source_dev, dev = sum(_size(s, "dev") for s in cell.sources), _selecting(cell, config, own)
    own -= dev if config.selection == "held_out" else 0
    texts = [_raw_size(text) for _, text in cell.raw]
    first, second = config.pretrain, config.train
    mixed = _Work(first, sources, sum, dev=source_dev)
    target = _Work(second, [own], sum, dev=dev)
    if base in ("aggregate", "multitask", "target_only"):
        samplers = [own, *sources] if base == "multitask" else [own + sum(sources)]
        return None, _Work(second, samplers, _mean, at_once=True, dev=dev)
    if base == "metaner":
        passes = _PASSES[base] * (_SECOND_ORDER if options.get("order") == "second-fd" else 1.0)
        meta = _Work(first, sources, _mean, at_once=True, passes=passes, dev=source_dev)
        return meta, None if cell.method.endswith("-zero") else target
    if base == "metacross":
        tasks = _Work(first, [sum(sources)], sum, passes=_PASSES[base], dev=source_dev)
        return tasks, target if cell.method.endswith("-few") else None
    if base == "dann":
        return _Work(first, [*sources, own + sum(texts)], _mean, at_once=True, dev=source_dev), target if own else None
    if base == "bilm":
        text = sum(texts) or own + sum(sources)
        return _Work(first, [text], sum), target if own else _Work(second, sources, sum, dev=source_dev)
    if cell.method == "selftrain":
        return mixed, _Work(second, [*sources, sum(texts) // 4], sum, dev=source_dev)
    if cell.method == "teacher_student":
        own_teacher = bool(own) and not (options.get("teacher") or cell.teachers)  # it learns the labels first
        taught = replace(second, updates=second.updates + (options.get("teacher_updates") or second.updates))
        texts = [min(sum(texts), options.get("sentences") or sum(texts))]
        works = _Work(taught if own_teacher else second, texts, sum, dev=dev, passes=2.0)
        return mixed if sources else None, works
    if base in ("datnet", "auto-datnet"):
        share = options.get("source_share", 0.4)
        return None, _Work(
            second,
            [own, *sources],
            lambda counts: options.get("epoch_steps") or max(counts[0], round(share * sum(counts[1:])), 1),
            at_once=bool(sources),
            passes=2.0 if options.get("adversarial_training", True) else 1.0,
            dev=dev + (_size(cell.target, "test") if options.get("test_oracle") else 0),
        )
    if base == "crosslm":
        labelled = [n for n in (own, *sources) if n]
        passes = 1.2 if options.get("variant") == "co-ner" else 2.4  # a language model beside the tagger
        return None, _Work(second, labelled, _mean, at_once=True, passes=passes, dev=dev if own else source_dev)
    zero = cell.method in ("source_only", "direct")
    return mixed if sources else None, None if zero else target


def _kind(cell: Cell, pretrain: bool) -> tuple[str, str, bool]:
    encoder = config_of(cell).encoder.kind
    return cell.pretrained_by if pretrain else cell.method, encoder, pretrain


def _mean(counts: Sequence[int]) -> int:
    return -(-sum(counts) // len(counts))


def _size(name: str, split: str = "train") -> int:
    """Sentences of a split as a grid uses it: where a corpus has no dev split, a tenth of train is held out."""
    known = catalog().get(name)
    if known is None or not known.counts:
        return _UNKNOWN if split == "train" else _UNKNOWN // 10
    if split in known.counts and (split != "train" or "dev" in known.counts):
        return known.counts[split].sentences
    train = known.counts["train"].sentences if "train" in known.counts else 0
    return round(train * {"train": 1 - _HELD_OUT, "dev": _HELD_OUT}.get(split, 0.0))


def _labelled(cell: Cell) -> int:
    size = _size(cell.target) + (_size(cell.target, "dev") if cell.train_on_dev else 0)
    if cell.shots is not None:
        return min(size, cell.shots)
    return round(size * cell.ratio) if cell.ratio is not None else size


def _selecting(cell: Cell, config: Config, labelled: int) -> int:
    """Sentences of the target that select its weights."""
    if config.selection == "held_out":
        return round(HELD_OUT * labelled)
    few = cell.shots is not None or cell.ratio is not None
    unseen = config.selection == "last" or (config.selection == "auto" and few)
    return 0 if unseen else _size(cell.target, "dev")


def _raw_size(text: str) -> int:
    name, _, count = text.partition("@")
    name, _, split = name.partition(":")
    known = catalog().get(name)
    size = _size(name, split) if split else known.raw if known is not None and known.raw else _UNKNOWN
    return min(size, int(count)) if count else size
