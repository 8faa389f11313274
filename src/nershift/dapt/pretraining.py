"""Domain-adaptive pre-training (DAPT): a language model, trained further on raw text of a domain or language."""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nershift import __version__
from nershift.config import to_dict
from nershift.dapt.config import DaptConfig, resolve
from nershift.dapt.masked_lm import MaskedLM
from nershift.dapt.next_token import language_model
from nershift.dapt.stage import MaskedSampler, MaskedStage, fingerprint
from nershift.data.corpus import Corpus
from nershift.data.raw import Joined, RawText
from nershift.data.spans import Sentence
from nershift.encoders.transformer import load_pretrained
from nershift.errors import CheckpointError, NershiftError, SetupError
from nershift.manifest import manifested
from nershift.reports.run import read_metrics
from nershift.run_folder import open_folder
from nershift.storage import write_text
from nershift.training.budget import Budget
from nershift.training.logger import TrainLogger
from nershift.training.loop import Loop
from nershift.training.processes import Processes
from nershift.training.seeding import seed_torch

log = logging.getLogger(__name__)


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
    """Train ``encoder`` on ``raw`` and write a folder that any method accepts as ``encoder.transformer.name``.

    An interrupted run in ``out`` is resumed exactly. Training stops when the held-out loss no longer falls.

    Args:
        raw: texts, in memory or :class:`~nershift.data.raw.RawText`.
        exclude: corpora whose dev and test sentences are removed from the text, regardless of case and spacing.
        config: settings of :class:`~nershift.dapt.config.DaptConfig`, nested.

    Returns:
        what ``metrics.json`` holds: losses before and after, steps, sentences removed.
    """
    settings = resolve(config, seed)
    text = raw[0] if len(raw) == 1 else Joined(raw)
    corpora = tuple(exclude)
    identity = {"encoder": encoder} | to_dict(settings)
    identity["data"] = {
        "raw": [_digest(rows)[:16] for rows in raw],
        "exclude": {c.name: c.digest()[:16] for c in corpora},
    }
    with (
        Processes(settings.device) as processes,
        open_folder(Path(out), identity, overwrite, processes) as folder,
    ):
        if (folder / "metrics.json").exists():
            return _finished(folder)
        excluded = {fingerprint(s) for c in corpora for name in ("dev", "test") for s in c.splits.get(name, ())}
        removed = sum(fingerprint(s) in excluded for s in text) if excluded else 0
        if removed:
            log.info("%s sentences of dev and test were removed from the text", f"{removed:,}")
        seed_torch(settings.seed, "masked head")
        model = language_model(encoder, settings.max_subwords, settings.rank)
        stage = _stage(model, text, settings, excluded)
        stage.model.to(processes.device)
        start = time.monotonic()
        before = -stage.validate()
        log.info("held-out loss %.4f before%s", before, " (with a new head)" if model.head_is_new else "")
        with TrainLogger(folder, quiet=quiet, main=processes.main) as logger:
            progress = Loop(stage, folder / "state", processes, logger).run()
        metrics = {
            "encoder": encoder,
            "sentences": len(text),
            "removed": removed,
            "new_head": model.head_is_new,
            "loss_before": before,
            "loss": before if progress.best is None else -progress.best,
            "steps": progress.step,
            "best_step": progress.best_step,
            "passes": progress.step / stage.sampler.per_epoch,
            "seconds": round(time.monotonic() - start, 2),
            "version": __version__,
        }
        if processes.main:
            with manifested(folder):
                model.save(folder)
            write_text(folder / "metrics.json", json.dumps(metrics, indent=1))
            shutil.rmtree(folder / "state", ignore_errors=True)
        processes.wait()
    return metrics


def _finished(folder: Path) -> dict[str, Any]:
    """The results of a run that is there already, if it is whole."""
    try:
        load_pretrained(str(folder.resolve()))
        return read_metrics(folder)
    except NershiftError as error:
        raise CheckpointError.of_finished(error) from None


def _stage(model: MaskedLM, text: Sequence[Sentence], settings: DaptConfig, excluded: set[int]) -> MaskedStage:
    sampler, train = MaskedSampler(model, text, settings, excluded), settings.train
    every = min(settings.eval_steps, sampler.per_epoch)  # steps: what the loop calls an epoch
    total = Budget.of(train, sampler.per_epoch).total
    train = dataclasses.replace(train, epochs=-(-total // every), updates=total)
    if model.head_is_new:
        encoder_lr = train.lr if train.encoder_lr is None else train.encoder_lr
        train = dataclasses.replace(train, lr=settings.head_lr, encoder_lr=encoder_lr)
    stage = MaskedStage(model, sampler, train, settings.seed, every)
    if not any(len(batch.inputs["masked"]) for batch in stage.held_out):
        raise SetupError("the held-out part of the text has no words", place="--raw", fix="give more text")
    return stage


def _digest(rows: Sequence[Sentence]) -> str:
    return rows.digest() if isinstance(rows, RawText) else Corpus("", {"raw": tuple(rows)}).digest()
