"""Domain-adaptive pre-training: any transformers encoder, read on in raw text of a domain."""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from nershift import __version__
from nershift.config import TrainConfig, build, merge, to_dict
from nershift.dapt.masked_lm import MaskedEncoder
from nershift.dapt.masking import Masking
from nershift.dapt.stage import MaskedSampler, MaskedStage, fingerprint
from nershift.data.corpus import Corpus
from nershift.data.raw import Joined, RawText
from nershift.data.spans import Sentence
from nershift.errors import ConfigError, SetupError
from nershift.run_folder import open_folder
from nershift.storage import write_text
from nershift.training.logger import TrainLogger
from nershift.training.loop import Loop
from nershift.training.processes import Processes
from nershift.training.seeding import seed_torch

log = logging.getLogger(__name__)

_TRAINING = TrainConfig(
    optimizer="adamw",
    lr=5e-5,
    weight_decay=0.01,
    clip=1.0,
    warmup=0.02,
    batch_size=128,
    epochs=15,
    patience=3,
)


@dataclass(frozen=True)
class DaptConfig:
    """``train.batch_size`` counts sentences, ``train.epochs`` passes over the text at most, and ``train.patience``
    evaluations without a lower held-out loss before stopping."""

    seed: int = 1
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    masking: Masking = "span"  # single sub-words (token), or spans of whole words
    share: float = 0.15  # of the sub-words to predict
    max_pieces: int = 128  # sub-words a row, special ones included
    hold_out: float = 0.02  # share of the text that measures progress
    eval_steps: int = 200  # steps between two looks at the held-out loss, at most a pass over the text
    head_lr: float = 5e-4  # of a head that had to be made, which starts from nothing
    train: TrainConfig = field(default_factory=lambda: _TRAINING)


def dapt(
    encoder: str,
    raw: Sequence[Sequence[Sentence]],
    *,
    out: str | Path,
    exclude: Iterable[Corpus] = (),
    config: Mapping[str, Any] | None = None,
    seed: int | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Train ``encoder`` on ``raw`` and write a folder that any method takes as ``encoder.transformer.name``.

    An interrupted run in ``out`` is resumed. Training stops when the held-out loss no longer falls.

    Args:
        raw: texts, in memory or :class:`~nershift.data.raw.RawText`.
        exclude: corpora whose dev and test sentences are taken out of the text, compared without case and spaces.
        config: settings over :class:`DaptConfig`, nested.

    Returns:
        what ``metrics.json`` holds: losses before and after, steps, sentences taken out.
    """
    settings = resolve(config, seed)
    text = raw[0] if len(raw) == 1 else Joined(raw)
    corpora = tuple(exclude)
    identity = {"encoder": encoder} | to_dict(settings)
    identity["data"] = {
        "raw": [_digest(rows)[:16] for rows in raw],
        "exclude": {c.name: c.digest()[:16] for c in corpora},
    }
    with Processes(settings.device) as processes:
        folder = open_folder(Path(out), identity, overwrite, processes)
        if (folder / "metrics.json").exists():
            return dict(json.loads((folder / "metrics.json").read_text(encoding="utf-8")))
        banned = {fingerprint(s) for c in corpora for name in ("dev", "test") for s in c.splits.get(name, ())}
        removed = sum(fingerprint(s) in banned for s in text) if banned else 0
        if removed:
            log.info("%s sentences of dev and test were taken out of the text", f"{removed:,}")
        seed_torch(settings.seed, "masked head")
        model = MaskedEncoder(encoder, settings.max_pieces)
        stage = _stage(model, text, settings, banned)
        stage.model.to(processes.device)
        began = time.monotonic()
        before = -stage.validate()
        log.info("held-out loss %.4f before%s", before, " (with a new head)" if model.head_is_new else "")
        with TrainLogger(folder, quiet=quiet, main=processes.main) as logger:
            progress = Loop(stage, folder / "state", processes, logger).run()
        assert progress.best is not None
        metrics = {
            "encoder": encoder,
            "sentences": len(text),
            "removed": removed,
            "new_head": model.head_is_new,
            "loss_before": before,
            "loss": -progress.best,
            "steps": progress.step,
            "best_step": progress.best_step,
            "passes": progress.step / stage.sampler.per_epoch,
            "seconds": round(time.monotonic() - began, 2),
            "version": __version__,
        }
        if processes.main:
            model.save(folder)
            write_text(folder / "metrics.json", json.dumps(metrics, indent=1))
            shutil.rmtree(folder / "state", ignore_errors=True)
        processes.wait()
    return metrics


def resolve(config: Mapping[str, Any] | None = None, seed: int | None = None) -> DaptConfig:
    """Defaults, then the user's settings; every mistake is a :class:`ConfigError`."""
    values = merge({"train": to_dict(_TRAINING)}, config or {})
    if seed is not None:
        values["seed"] = seed
    made = build(DaptConfig, values)
    for name, good, expected in (
        ("share", 0 < made.share < 1, "a share between 0 and 1"),
        ("hold_out", 0 < made.hold_out <= 0.5, "a share above 0, at most 0.5"),
        ("eval_steps", made.eval_steps >= 1, "1 or more"),
        ("train.model_soup", made.train.model_soup == 1, "1: only taggers are averaged"),
        ("train.mention_replacement", not made.train.mention_replacement, "0: raw text has no entities"),
        ("train.fgm_epsilon", not made.train.fgm_epsilon, "0: words are masked, not moved"),
        ("max_pieces", made.max_pieces >= 8, "8 or more"),
    ):
        if not good:
            raise ConfigError(f"found {attrgetter(name)(made)!r}", place=f"config.{name}", expected=expected)
    return made


def _stage(model: MaskedEncoder, text: Sequence[Sentence], settings: DaptConfig, banned: set[int]) -> MaskedStage:
    sampler = MaskedSampler(
        model,
        text,
        settings.train.batch_size,
        settings.seed,
        settings.masking,
        settings.share,
        settings.hold_out,
        banned,
    )
    every = min(settings.eval_steps, sampler.per_epoch)
    total = settings.train.epochs * sampler.per_epoch
    if settings.train.max_steps:
        total = min(total, settings.train.max_steps)
    train = dataclasses.replace(settings.train, epochs=-(-total // every), max_steps=total)
    if model.head_is_new:
        encoder_lr = train.lr if train.encoder_lr is None else train.encoder_lr
        train = dataclasses.replace(train, lr=settings.head_lr, encoder_lr=encoder_lr)
    stage = MaskedStage(model, sampler, train, settings.seed, every)
    if not any(len(batch.inputs["chosen"]) for batch in stage.held_out):
        raise SetupError("the held-out part of the text has no words", place="--raw", fix="give more text")
    return stage


def _digest(rows: Sequence[Sentence]) -> str:
    return rows.digest() if isinstance(rows, RawText) else Corpus("", {"raw": tuple(rows)}).digest()
