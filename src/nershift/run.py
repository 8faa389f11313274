"""Runs: from corpora and settings to a folder with a tagger, scores and predictions."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nershift import __version__
from nershift.arguments import check_amounts, check_corpus, check_sources
from nershift.config import Config, build, current_names, merge, to_dict
from nershift.data.corpus import Corpus, subset
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.encoders.base import ENCODERS
from nershift.errors import CheckpointError, ConfigError, SetupError, nearest
from nershift.evaluation.metrics import score, sentence_counts, share_changed
from nershift.evaluation.predictions import write_predictions
from nershift.evaluation.stats import bootstrap_f1
from nershift.heads.base import HEADS
from nershift.methods import METHODS
from nershift.methods.adapter import load_adapter
from nershift.methods.base import Method, Setup
from nershift.model import TaggingModel
from nershift.model_store import load_model, save_model
from nershift.reports.run import write_report
from nershift.run_folder import Run, open_folder
from nershift.run_notes import averaged, beginning, idle, leaks, origin_of, unused
from nershift.storage import write_text
from nershift.tagger.calibration import before_and_after
from nershift.tagger.tagger import Tagger
from nershift.training.logger import TrainLogger
from nershift.training.loop import Loop
from nershift.training.model_soup import AVERAGE, train_and_average
from nershift.training.processes import Processes
from nershift.training.stage import TrainingStage

# Settings whose values are registered names.
KINDS: dict[str, Mapping[str, Any]] = {"encoder.kind": ENCODERS, "head.kind": HEADS}
log = logging.getLogger(__name__)


def resolve(method: str, settings: Mapping[str, Any] | None = None, seed: int | None = None) -> Config:
    """Defaults, then the method's preset, then the user's settings."""
    cls = METHODS[method]
    values = current_names(Config, settings or {})
    if isinstance(values.get("options"), Mapping):
        values["options"] = current_names(cls.Options, values["options"], "config.options")
        values = _same_types_in_one_place(values)
    if METHODS.canonical(str(values.get("method", method))) != cls.name:
        raise ConfigError(
            f"the settings say '{values['method']}', but the method of this run is '{method}'",
            place="config.method",
            expected="one method",
            fix=f"--method {values['method']}, or leave 'method' out of the settings",
        )
    named, kind = (_asked(values, "encoder", *path) for path in (("transformer", "name"), ("kind",)))
    preset = str(values.get("preset", "paper"))
    if preset not in cls.presets:
        raise ConfigError(
            f"method '{method}' has no preset '{preset}'", place="preset", expected=" | ".join(cls.presets)
        )
    values = merge(merge(dict(cls.presets[preset]), values), {"method": cls.name})
    if seed is not None:
        values["seed"] = seed
    config = build(Config, values)
    if named and kind is None and config.encoder.kind != "transformer":
        raise ConfigError(
            f"the encoder '{named}' was named, but encoder.kind is {config.encoder.kind}",
            place="config.encoder.transformer.name",
            expected="encoder.kind transformer",
            fix="--set encoder.kind=transformer, or leave the name away",
        )
    for place, known in KINDS.items():
        if (kind := _asked(to_dict(config), *place.split("."))) not in known:
            raise ConfigError(
                f"found '{kind}'{nearest(kind, known)}", place=f"config.{place}", expected=" | ".join(known)
            )
    options: Any = build(cls.Options, config.options, "config.options")
    return dataclasses.replace(config, options=to_dict(options))


def _same_types_in_one_place(values: dict[str, Any]) -> dict[str, Any]:
    """Earlier versions had ``same`` among the options of two methods."""
    options = dict(values["options"])
    if "same" not in options:
        return values
    log.warning("config.options.same is now called head.same")
    return merge(values, {"head": {"same": options.pop("same")}}) | {"options": options}


def _asked(settings: Mapping[str, Any], *path: str) -> Any:
    """What the settings say under a path of names; None where they are silent."""
    for name in path:
        settings = settings.get(name) if isinstance(settings, Mapping) else None  # type: ignore[assignment]
    return settings


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

    Args:
        sources: labelled corpora of other domains.
        raw: unlabelled sentences by domain.
        shots: use only so many labelled target sentences (``ratio``: such a share); nested for one seed.
        start: a folder written by :func:`pretrain`, in place of the method's own pre-training. From a finished run
            it goes on too, and the report says which labels that one had learned.
        config: settings over the method's preset, nested as in ``config.yaml``.
        overwrite: throw away what an earlier run left in ``out``.
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
    cls = METHODS[method]
    check_corpus(target, "target")
    check_sources(sources)
    check_amounts(shots, ratio)
    setup = _setup(cls, settings, target, sources, raw, shots, ratio, start is not None)
    task = cls(setup)
    task.check()
    identity = _identity(setup, shots, ratio, start)
    with Processes(settings.device) as processes:
        folder = open_folder(Path(out), identity, overwrite, processes)
        if (folder / "metrics.json").exists():
            if processes.main:
                _round_off(folder, report)
            return Run.open(folder)
        began = time.monotonic()
        stages: dict[str, Any] = {}
        with TrainLogger(folder, quiet=quiet, tensorboard=settings.tensorboard, main=processes.main) as logger:
            model: TaggingModel | None = None
            if start is not None:
                model = _pretrained(Path(start), settings).to(processes.device)
            elif (stage := task.pretrain()) is not None:
                model = _run(stage, task.pretrain, folder, processes, logger, stages)
            # Training changes the model it starts from; who trains again needs that as it was.
            before = copy.deepcopy(model) if settings.train.model_soup > 1 else None
            if (stage := task.train(model)) is not None:
                model = _run(stage, lambda: task.train(copy.deepcopy(before)), folder, processes, logger, stages)
        if model is None:
            raise SetupError(f"method '{method}' has nothing to train", fix="give it --source or --target corpora")
        if processes.main:
            task.save_artifacts(model, folder)
        model = task.finish(model)
        adapter = task.adapter(model, load_adapter(Path(start)) if start is not None else None)
        meta = {"method": cls.name, "preset": settings.preset, "seed": settings.seed, "target": target.name}
        tagger = Tagger(model, meta, adapter=adapter)
        if processes.main:
            origin = origin_of(Path(start)) if start is not None else {}
            told: dict[str, Any] = {"start": origin or None, "phases": stages}
            if origin and not setup.sources:
                told["sources"] = origin["sources"]
            told["selection"] = _selection(task, stages or origin.get("phases", {}))
            told["remarks"] = [
                *beginning(origin),
                *averaged(stages),
                *idle(settings, stages),
                *task.run_notes(model),
                *unused(task),
                *leaks(task),
            ]
            told |= task.measures(model)
            _write_results(folder, tagger, task, identity, told, time.monotonic() - began)
            _round_off(folder, report)
        processes.wait()
    return Run.open(folder)


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
    model, meta = load_model(Path(start))
    if "method" not in meta:
        raise CheckpointError("was not written by pretrain", place=str(start), fix="nershift pretrain --method …")
    theirs = {"encoder": model.encoder.describe()["config"]}
    if "preset" in meta:
        theirs["preset"] = meta["preset"]
    values = merge(theirs, config or {})
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
    cls = METHODS[method]
    check_sources(sources)
    setup = _setup(cls, settings, None, sources, raw, None, None, False)
    task = cls(setup)
    task.check()
    identity = _identity(setup, None, None, None)
    with Processes(settings.device) as processes:
        folder = open_folder(Path(out), identity, overwrite, processes)
        if (folder / "model.json").exists():
            return folder
        stage = task.pretrain()
        if stage is None:
            raise SetupError(
                f"method '{method}' learns sources and target together",
                fix=f"nershift transfer --method {method} --source … --target …",
            )
        stages: dict[str, Any] = {}
        with TrainLogger(folder, quiet=quiet, tensorboard=settings.tensorboard, main=processes.main) as logger:
            model = _run(stage, task.pretrain, folder, processes, logger, stages)
        if processes.main:
            if (adapter := task.adapter(model)) is not None:
                adapter.save(folder)
            told = {"preset": settings.preset, "seed": settings.seed, "phases": stages}
            save_model(folder, model, {"method": cls.name} | told)
            shutil.rmtree(folder / "state", ignore_errors=True)
        processes.wait()
    return folder


def _setup(
    cls: type[Method],
    config: Config,
    target: Corpus | None,
    sources: Sequence[Corpus],
    raw: Mapping[str, Sequence[Sentence]] | None,
    shots: int | None,
    ratio: float | None,
    pretrained: bool,
) -> Setup:
    types: tuple[str, ...] = ()
    if target is not None:
        labelled = [s for name in ("train", "dev") for s in target.splits.get(name, ())]
        types = tuple(sorted({span.label for s in labelled for span in s.spans}))
        if ratio is not None or (shots is not None and (shots or "train" in target.splits)):
            target = target.with_splits(train=subset(target.train, shots=shots, ratio=ratio, seed=config.seed))
    options: Any = build(cls.Options, config.options, "config.options")
    return Setup(config, options, target, types, tuple(sources), dict(raw or {}), pretrained)


def _identity(setup: Setup, shots: int | None, ratio: float | None, start: str | Path | None) -> dict[str, Any]:
    """Everything that decides the result: written as config.yaml, compared before resuming."""
    data: dict[str, Any] = {"sources": {c.name: c.digest()[:16] for c in setup.sources}}
    if setup.target is not None:
        data |= {"target": setup.target.name, "target_digest": setup.target.digest()[:16]}
    data |= {"shots": shots, "ratio": ratio, "start": str(start) if start else None}
    data["raw"] = {name: _raw_digest(rows)[:16] for name, rows in setup.raw.items()}
    return to_dict(setup.config) | {"data": data}


def _raw_digest(rows: Sequence[Sentence]) -> str:
    return rows.digest() if isinstance(rows, RawText) else Corpus("", {"raw": tuple(rows)}).digest()


def _pretrained(folder: Path, config: Config) -> TaggingModel:
    model, meta = load_model(folder)
    found, asked = model.encoder.describe()["config"], to_dict(config.encoder)
    for key in ("kind", "recurrent"):
        if found[key] != asked[key]:
            raise CheckpointError(
                f"was pretrained with encoder.{key} = {found[key]}",
                place=str(folder),
                expected=f"{asked[key]} as the settings of this run say",
                fix=f"leave encoder settings away, or pretrain again (method: {meta.get('method')})",
            )
    return model


def _run(
    stage: TrainingStage,
    again: Callable[[], TrainingStage | None],
    folder: Path,
    processes: Processes,
    logger: TrainLogger,
    stages: dict[str, Any],
) -> TaggingModel:
    """Train; ``again`` gives the same stage from the same start, should it have to be trained more than once."""

    def loop(one: TrainingStage) -> Loop:
        one.model.to(processes.device)
        return Loop(one, folder / "state", processes, logger)

    trainings, average = train_and_average(stage, again, loop)
    for name, result in trainings.items():
        told = {"steps": result.step, "best_step": result.best_step, "dev_f1": result.best}
        for monitor in stage.monitors:
            logged = [entry[monitor] for entry in logger.entries() if entry["phase"] == name]
            told[monitor] = max(logged)  # the best of all epochs, chosen with a look at it
        stages[name] = told
    if average is not None:
        stages[f"{AVERAGE}{stage.name}"] = {"of": list(average.of), "dev_f1": average.score}
    return stage.model


def _selection(task: Method, stages: Mapping[str, Any]) -> str:
    """What chose the weights: the target's dev split where its labels were learned, else those of the sources."""
    scores = [stage["dev_f1"] for stage in stages.values()]
    if not scores or scores[-1] is None:
        return "last"
    return "best dev F1" if task.learns_labels else "best dev F1 of the sources"


def _write_results(
    folder: Path,
    tagger: Tagger,
    task: Method,
    identity: Mapping[str, Any],
    told: Mapping[str, Any],
    seconds: float,
) -> None:
    """Tagger, predictions, and last of all metrics.json, whose presence says that the run is finished."""
    setup = task.setup
    assert setup.target is not None
    splits = setup.target.splits
    metrics: dict[str, Any] = {
        "method": setup.config.method,
        "preset": setup.config.preset,
        "seed": setup.config.seed,
        "target": setup.target.name,
        "sources": [c.name for c in setup.sources if task.uses_sources],
        "labelled": len(splits.get("train", ())),
        "data": identity["data"],
        **told,
        "seconds": round(seconds, 2),
        "device": str(tagger.model.device),
        "version": __version__,
    }
    batch_size = setup.config.train.eval_batch_size
    tagger.model.head(tagger.key).temperature = 1.0
    if splits.get("dev") and task.learns_labels:
        tagger.calibrate(splits["dev"], batch_size)
    metrics["calibration"] = dict(tagger.meta.get("calibration", {}))
    for name in ("dev", "test"):
        if gold := splits.get(name):
            pred, raw = tagger.tag_twice(gold, batch_size)
            if tagger.adapter is not None:
                plain, pred = pred, tagger.adapt_sentences(gold)
                metrics[f"{name}_adaptation"] = {
                    "f1_before": score(gold, plain).f1,
                    "tokens_changed": share_changed(plain, pred),
                    **tagger.adapter.measures(),
                }
            plainly = raw if tagger.adapter is None else None
            metrics["calibration"][name] = before_and_after(gold, plainly, pred)
            interval = bootstrap_f1(sentence_counts(gold, pred))
            metrics[name] = score(gold, pred).to_dict() | {"interval": [interval.low, interval.high]}
            if name == "test":
                write_predictions(folder / "predictions.jsonl", gold, pred)
    tagger.meta["metrics"] = {k: metrics[k]["f1"] for k in ("dev", "test") if k in metrics}
    tagger.save(folder)
    write_text(folder / "metrics.json", json.dumps(metrics, indent=1))


def _round_off(folder: Path, report: bool) -> None:
    """What is left to do when the results are there; a run that was killed in it makes up for it."""
    shutil.rmtree(folder / "state", ignore_errors=True)
    if report and not (folder / "report.html").exists():
        write_report(folder)
