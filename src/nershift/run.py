"""Runs: from corpora and settings to a folder with a tagger, scores and predictions."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nershift.arguments import as_block, as_path
from nershift.config import merge, to_dict
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.errors import CheckpointError, NershiftError, SetupError
from nershift.evaluation.predictions import read_predictions
from nershift.manifest import manifested
from nershift.methods.adapter import load_adapter
from nershift.methods.base import Method
from nershift.model_store import load_model, save_model
from nershift.reports.run import read_metrics
from nershift.run_arguments import as_raw, check_amounts, check_corpus, check_sources
from nershift.run_folder import Run, finish_folder, open_folder, write_results
from nershift.run_request import Request
from nershift.run_settings import resolve
from nershift.run_stages import Training, facts_of, train_tagger
from nershift.training.logger import TrainLogger
from nershift.training.processes import Processes, threads_for

NO_MODEL = "no-model"  # a file that says: this run was made for its scores, and its weights were deleted


def transfer(
    method: str,
    target: Corpus,
    sources: Sequence[Corpus] = (),
    *,
    out: str | Path,
    raw: Mapping[str, Sequence[Sentence]] | None = None,
    shots: int | None = None,
    ratio: float | None = None,
    start: str | Path | None = None,
    config: Mapping[str, Any] | None = None,
    seed: int | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    report: bool = True,
) -> Run:
    """Train a tagger for ``target`` with ``method`` and write a run folder; resumes an interrupted one.

    It has many parameters because it is the public interface of a run; inside, they travel as one value.

    Args:
        sources: labelled corpora of other domains.
        raw: unlabelled sentences by domain.
        shots: how many labelled target sentences to use (``ratio``: which share); smaller sets are part of larger ones.
        start: a folder written by :func:`pretrain`, which replaces the method's own pre-training, or a finished run,
            whose labels the report then mentions.
        config: settings over the method's preset, nested as in ``config.yaml``.
        overwrite: delete what an earlier run left in ``out``.
        report: also write the report (``report.html``, ``report.md``, ``report.json``).

    Example:
        >>> from nershift import read_corpus, transfer
        >>> clinic, news = read_corpus("corpora/clinic"), read_corpus("corpora/news")
        >>> few = {"pretrain": {"epochs": 1}, "train": {"epochs": 2}}
        >>> run = transfer("finetune", clinic, [news], out="runs/clinic", shots=20, config=few, quiet=True)
        >>> run.metrics["labelled"], 0 <= run.f1 <= 1
        (20, True)
    """
    settings = resolve(method, config, seed)
    check_corpus(target, "target")
    check_sources(sources)
    check_amounts(shots, ratio)
    begin, where = None if start is None else as_path(start, "start"), as_path(out, "out")
    request = Request(method, settings, sources, target, as_raw(raw), shots, ratio, begin)
    chosen = request.build_method()
    identity = request.identity()
    with (
        Processes(settings.device, threads_for(settings.encoder)) as processes,
        open_folder(where, identity, overwrite, processes) as folder,
    ):
        if not (folder / "metrics.json").exists():
            began = time.monotonic()
            tagger, stages = train_tagger(request, chosen, folder, processes, quiet)
            if processes.main:
                facts = {"data": identity["data"]} | facts_of(request, chosen, tagger.model, stages)
                facts["seconds"] = time.monotonic() - began
                write_results(folder, tagger, chosen, facts, request.unused_dev)
        elif processes.main:
            _check_finished(folder)
        if processes.main:
            finish_folder(folder, report)
        processes.wait()
    return Run.open(folder)


def _check_finished(folder: Path) -> None:
    """A run that is there already is of use only if it is whole."""
    try:
        if not (folder / NO_MODEL).exists():
            load_model(folder)
            load_adapter(folder)
        if "test" in read_metrics(folder):
            read_predictions(folder / "predictions.jsonl")
    except NershiftError as error:
        raise CheckpointError.of_finished(error) from None


def adapt(
    start: str | Path,
    target: Corpus,
    *,
    out: str | Path,
    shots: int | None = None,
    ratio: float | None = None,
    config: Mapping[str, Any] | None = None,
    seed: int | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    report: bool = True,
) -> Run:
    """:func:`transfer` from a folder that :func:`pretrain` wrote, with its method, preset and encoder.

    Example:
        >>> from nershift import adapt, pretrain, read_corpus
        >>> news, clinic = read_corpus("corpora/news"), read_corpus("corpora/clinic")
        >>> few = {"pretrain": {"epochs": 1}, "train": {"epochs": 2}}
        >>> start = pretrain("finetune", [news], out="runs/sources", config=few, quiet=True)
        >>> adapt(start, clinic, out="runs/adapted", config=few, quiet=True).metrics["start"]["sources"]
        ['news']
    """
    model, meta = load_model(as_path(start, "start", "a folder that pretrain wrote"))
    if "method" not in meta:
        raise CheckpointError("was not written by pretrain", place=str(start), fix="nershift pretrain --method …")
    theirs: dict[str, Any] = {"encoder": to_dict(model.encoder.config)}
    if "preset" in meta:
        theirs["preset"] = meta["preset"]
    values = merge(theirs, as_block(config, "config"))
    return transfer(
        str(meta["method"]),
        target,
        out=out,
        shots=shots,
        ratio=ratio,
        start=start,
        config=values,
        seed=seed,
        overwrite=overwrite,
        quiet=quiet,
        report=report,
    )


def pretrain(
    method: str,
    sources: Sequence[Corpus],
    *,
    out: str | Path,
    raw: Mapping[str, Sequence[Sentence]] | None = None,
    config: Mapping[str, Any] | None = None,
    seed: int | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Path:
    """Learn from the sources alone; the folder adapts to any target and label space (:func:`adapt`).

    Example:
        >>> from nershift import pretrain, read_corpus
        >>> few = {"pretrain": {"epochs": 1}, "train": {"epochs": 2}}
        >>> folder = pretrain("finetune", [read_corpus("corpora/news")], out="runs/sources", config=few, quiet=True)
        >>> (folder / "model.safetensors").exists()
        True
    """
    settings = resolve(method, config, seed)
    check_sources(sources)
    where = as_path(out, "out")
    request = Request(method, settings, sources, raw=as_raw(raw))
    chosen = request.build_method()
    with (
        Processes(settings.device, threads_for(settings.encoder)) as processes,
        open_folder(where, request.identity(), overwrite, processes) as folder,
    ):
        if not (folder / "model.json").exists():
            _pretrain(chosen, folder, processes, quiet)
        elif processes.main:
            _check_finished(folder)
        processes.wait()
    return folder


def _pretrain(method: Method, folder: Path, processes: Processes, quiet: bool) -> None:
    config = method.config
    with TrainLogger(folder, quiet=quiet, tensorboard=config.tensorboard, main=processes.main) as logger:
        training = Training(method, folder, processes, logger)
        model = training.run("pretrain", None)
    if model is None:
        raise SetupError(
            f"method '{method.name}' learns sources and target together",
            fix=f"nershift transfer --method {method.name} --source … --target …",
        )
    if processes.main:
        meta = {"method": method.name, "preset": config.preset, "seed": config.seed, "phases": training.results}
        with manifested(folder):
            if (adapter := method.adapter(model)) is not None:
                adapter.save(folder)
            save_model(folder, model, meta)
        shutil.rmtree(folder / "state", ignore_errors=True)
