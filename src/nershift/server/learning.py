"""Learning from a few corrected sentences: new types are added to the head, then all weights are fine-tuned."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from nershift.config import TrainConfig
from nershift.data.folds import folds
from nershift.data.labels import LabelMapping, LabelSpace
from nershift.data.spans import Sentence
from nershift.evaluation.metrics import score
from nershift.heads.base import Head, make_head
from nershift.methods.base import TARGET, move_to
from nershift.model import TaggingModel
from nershift.model_store import load_model
from nershift.tagger.tagger import Tagger
from nershift.training.logger import TrainLogger
from nershift.training.loop import Loop
from nershift.training.processes import Processes, threads_for
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import seed_torch
from nershift.training.stage import TrainingStage

SEED = 1
FOLDS = 5
_PLAIN = TrainConfig(lr=3e-3, batch_size=8, schedule="linear")
_PRETRAINED = TrainConfig(optimizer="adamw", lr=1e-3, encoder_lr=5e-5, batch_size=8, schedule="linear", warmup=0.1)
_STEPS = {False: (120, 600), True: (40, 200)}  # least and most; True: of an encoder pretrained on text
_EPOCHS = 40  # where that lies between
Tell = Callable[[float, str], None]  # share done, what is going on


def learn(base: Path, sentences: Sequence[Sentence], scratch: Path, seconds: float, tell: Tell) -> Tagger:
    """A tagger for the types of ``base`` and of ``sentences``, from the weights of ``base``.

    Args:
        base: folder of a tagger or of a pretrained model; it is only read. Its files are not checked again.
        sentences: labelled with all their entities.
        scratch: a folder for training's temporary files.
        seconds: about how long training may take.
        tell: called with the progress.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    model, meta = load_model(base, verify=False)
    model = prepare(model, sentences)
    torch.set_num_threads(threads_for(model.encoder.config))
    config = _settings(model, sentences, seconds)
    sampler = BatchSampler(model, TARGET, sentences, config.batch_size, SEED)
    stage = TrainingStage("train", model, config, {TARGET: sampler}, SEED)
    with Processes("cpu") as processes, _ProgressLogger(scratch, config.updates, tell) as logger:
        Loop(stage, scratch / "state", processes, logger).run()
    meta.pop("calibration", None)
    return Tagger(model, {**meta, "seed": SEED, "labelled": len(sentences)})


def prepare(model: TaggingModel, sentences: Sequence[Sentence]) -> TaggingModel:
    """``model`` with the words of the sentences and one head, for its own types and theirs.

    What a head knows of its types stays; rows of new types start as is best for the encoder.
    """
    types = {span.label for s in sentences for span in s.spans}
    old = _nearest_head(model, types)
    description: dict[str, Any] = old.describe() if old is not None and old.learns_rows else {"kind": "crf"}
    space = LabelSpace.of(
        {*(old.predicted_types if old is not None else ()), *types}, description.get("scheme", "BIOES")
    )

    def new_head(space: LabelSpace, size: int, key: str) -> Head:
        seed_torch(SEED, "decoder", key)
        return make_head(description["kind"], space, size, description.get("settings"))

    if old is not None:
        old.temperature = 1.0  # it was fitted to weights that are about to change
        model = TaggingModel(model.encoder, {TARGET: old})
    return move_to(model, space, sentences, new_head, SEED, {})


def _nearest_head(model: TaggingModel, types: set[str]) -> Head | None:
    """The target's head; of a pretrained model the one that shares most types, if any does."""
    heads = dict(model.named_heads())
    if TARGET in heads:
        return heads[TARGET]
    shared = [(len(LabelMapping.between(types, h.types)), -len(h.types), h) for h in heads.values()]
    best = max(shared, key=lambda row: row[:2], default=(0, 0, None))
    return best[2] if best[0] else None


def _settings(model: TaggingModel, sentences: Sequence[Sentence], seconds: float) -> TrainConfig:
    """Enough steps for this many sentences, but no more than fit in the time; three steps are timed to estimate it."""
    config = _PRETRAINED if model.encoder.pretrained else _PLAIN
    least, most = _STEPS[model.encoder.pretrained]
    per_epoch = -(-len(sentences) // config.batch_size)
    steps = min(max(_EPOCHS * per_epoch, least), most)
    sampler = BatchSampler(model, TARGET, sentences, config.batch_size, SEED)
    times = []
    for k in range(3):
        began = time.perf_counter()
        model(sampler.batch(k)).backward()
        times.append(time.perf_counter() - began)
    model.zero_grad(set_to_none=True)
    affordable = int(seconds / (1.5 * statistics.median(times)))  # the optimiser takes its share too
    steps = max(min(steps, affordable), min(least, 20))
    return replace(config, updates=steps)


class _ProgressLogger(TrainLogger):
    """A logger that reports how far training has come."""

    def __init__(self, folder: Path, total: int, tell: Tell) -> None:
        super().__init__(folder, quiet=True)
        self._total, self._tell = total, tell

    def write(self, entry: dict[str, Any], step: int) -> None:
        super().write(entry, step)
        self._tell(step / self._total, f"step {step} of {self._total}, loss {entry['loss']:.2f}")


def cross_validate(
    base: Path, sentences: Sequence[Sentence], scratch: Path, seconds: float, tell: Tell
) -> dict[str, float | int] | None:
    """Mean and standard deviation of F1 over folds; None if fewer than two folds can be scored.

    Folds are stratified by entity type. A fold without entities is omitted.
    """
    scores = []
    parts = folds(sentences, FOLDS)
    for number, held in enumerate(parts):
        train = [s for i, s in enumerate(sentences) if i not in held]
        test = [sentences[i] for i in sorted(held)]

        def report(share: float, message: str, number: int = number) -> None:
            tell((number + share) / len(parts), f"fold {number + 1} of {len(parts)}")

        if train and any(s.spans for s in test):
            tagger = learn(base, train, scratch / f"fold-{number}", seconds, report)
            scores.append(score(test, tagger.tag_sentences(test)).f1)
    if len(scores) < 2:
        return None
    mean, sd = statistics.mean(scores), statistics.stdev(scores)
    return {"mean": round(mean, 4), "sd": round(sd, 4), "folds": len(scores)}
