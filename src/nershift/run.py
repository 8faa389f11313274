"""Runs: from corpora and settings to a folder with a tagger, scores and predictions."""

from __future__ import annotations

import copy
import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from nershift.arguments import as_block, as_path
from nershift.config import Config, TrainConfig, build, current_names, merge, to_dict
from nershift.data.apart import Without, fingerprints, without
from nershift.data.corpus import Corpus, subset
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.encoders.base import ENCODERS
from nershift.errors import CheckpointError, ConfigError, NershiftError, SetupError, nearest
from nershift.evaluation.predictions import read_predictions
from nershift.heads.base import HEADS
from nershift.manifest import manifested
from nershift.methods import METHODS
from nershift.methods.adapter import load_adapter
from nershift.methods.base import Method, Setup
from nershift.model import TaggingModel
from nershift.model_store import load_model, save_model
from nershift.reports.run import read_metrics
from nershift.run_arguments import as_raw, check_amounts, check_corpus, check_sources
from nershift.run_folder import Run, collect_notes, finish_folder, open_folder, origin_of, write_results
from nershift.tagger.tagger import Tagger
from nershift.training.budget import batch_size
from nershift.training.logger import TrainLogger
from nershift.training.loop import Loop, Progress
from nershift.training.model_soup import AVERAGE, ModelSoup, draw_anew
from nershift.training.processes import Processes
from nershift.training.stage import TrainingStage

# Settings whose values are registered names.
KINDS: dict[str, Mapping[str, Any]] = {"encoder.kind": ENCODERS, "head.kind": HEADS}
log = logging.getLogger(__name__)
Selection = Literal["auto", "dev", "held_out", "last"]
NO_MODEL = "no-model"  # a file that says: this run was made for its scores, and its weights were deleted
HELD_OUT = 0.2  # share of the labels that selects the weights with ``selection: held_out``


def resolve(method: str, settings: Mapping[str, Any] | None = None, seed: int | None = None) -> Config:
    """Defaults, then the method's preset, then the user's settings."""
    cls = METHODS[method]
    values = current_names(Config, as_block(settings, "config"))
    if isinstance(values.get("options"), Mapping):
        values["options"] = current_names(cls.Options, values["options"], "config.options")
        values = _same_types_in_one_place(values)
    if METHODS.canonical(str(values.get("method", method))) != cls.name:
        raise ConfigError(
            f"the settings say '{values['method']}', but the method of this run is '{method}'",
            place="config.method",
            expected="one method",
            fix=f"--method {values['method']}, or omit 'method' in the settings",
        )
    named, kind = (_value_at(values, "encoder", *path) for path in (("transformer", "name"), ("kind",)))
    preset = str(values.get("preset", "default"))
    if preset not in ("default", *cls.presets):
        raise ConfigError(
            f"method '{method}' has no preset '{preset}'", place="preset", expected=" | ".join(cls.presets)
        )
    begin = _one_length(cls.preset(preset, None if kind is None else str(kind)), values)
    values = merge(merge(begin, values), {"method": cls.name})
    if seed is not None:
        values["seed"] = seed
    config = build(Config, values)
    if named and kind is None and config.encoder.kind != "transformer":
        raise ConfigError(
            f"the encoder '{named}' was named, but encoder.kind is {config.encoder.kind}",
            place="config.encoder.transformer.name",
            expected="encoder.kind transformer",
            fix="--set encoder.kind=transformer, or omit the name",
        )
    for place, known in KINDS.items():
        if (kind := _value_at(to_dict(config), *place.split("."))) not in known:
            raise ConfigError(
                f"found '{kind}'{nearest(kind, known)}", place=f"config.{place}", expected=" | ".join(known)
            )
    options: Any = build(cls.Options, config.options, "config.options")
    return replace(config, options=to_dict(options))


def _one_length(preset: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The preset without its length, and a patience in epochs, where the user gives a length in the other unit."""
    begin = dict(preset)
    for block in ("pretrain", "train"):
        given = {name for name in ("updates", "epochs") if _value_at(values, block, name)}
        if len(given) == 1:
            own = begin.get(block, {})
            dropped = {"updates", "epochs"} | ({"patience"} if given == {"updates"} and own.get("epochs") else set())
            begin[block] = {k: v for k, v in own.items() if k not in dropped}
    return begin


def _same_types_in_one_place(values: dict[str, Any]) -> dict[str, Any]:
    """Earlier versions had ``same`` among the options of two methods."""
    options = dict(values["options"])
    if "same" not in options:
        return values
    log.warning("config.options.same is now called head.same")
    return merge(values, {"head": {"same": options.pop("same")}}) | {"options": options}


def _value_at(settings: Mapping[str, Any], *path: str) -> Any:
    """The setting at a path of names; None if it is not set."""
    for name in path:
        settings = settings.get(name) if isinstance(settings, Mapping) else None  # type: ignore[assignment]
    return settings


@dataclass(frozen=True)
class Request:
    """What a run was asked for."""

    method: str
    config: Config
    sources: Sequence[Corpus]
    target: Corpus | None = None
    raw: Mapping[str, Sequence[Sentence]] = field(default_factory=dict)
    shots: int | None = None
    ratio: float | None = None
    start: Path | None = None  # a folder to start from

    @cached_property
    def setup(self) -> Setup:
        target, types, rest = self.target, tuple[str, ...](), list[Sentence]()
        selection = self._selection()
        if target is not None:
            labelled = [s for name in ("train", "dev") for s in target.splits.get(name, ())]
            types = tuple(sorted({*target.declared, *(span.label for s in labelled for span in s.spans)}))
            if self.ratio is not None or (self.shots is not None and (self.shots or "train" in target.splits)):
                few = subset(target.train, shots=self.shots, ratio=self.ratio, seed=self.config.seed)
                known = {id(s) for s in few}
                rest = [s.with_spans(()) for s in target.train if id(s) not in known]
                target = target.with_splits(train=few)
            target = selected_on(target, selection)
        pooled = METHODS[self.method].pools_sources
        config = replace(with_batch_sizes(self.config, target, self.sources, pooled), selection=selection)
        options: Any = build(METHODS[self.method].Options, self.config.options, "config.options")
        scored, left_out = self._scored, dict[str, int]()

        def unseen(name: str, text: Sequence[Sentence]) -> Sequence[Sentence]:
            kept = without(text, scored)
            if isinstance(kept, Without):
                left_out[name] = len(kept.removed)
            return kept

        def with_unseen(corpus: Corpus) -> Corpus:
            raw = corpus.splits.get("raw")
            return corpus.with_splits(raw=unseen(corpus.name, raw)) if raw else corpus

        return Setup(
            config,
            options,
            with_unseen(target) if target is not None else None,
            types,
            tuple(map(with_unseen, self.sources)),
            {name: unseen(name, text) for name, text in self.raw.items()},
            pretrained=self.start is not None,
            unlabelled=unseen("the other training sentences", rest),
            scored=scored,
            left_out=left_out,
        )

    @property
    def _scored(self) -> frozenset[str]:
        """What no unlabelled text may have: the target's dev and test sentences."""
        splits = self.target.splits if self.target is not None else {}
        return fingerprints(s for name in ("dev", "test") for s in splits.get(name, ()))

    def _selection(self) -> Selection:
        """What chooses the weights; ``auto`` as the few labels of a real target would have it."""
        asked, dev = self.config.selection, self.target is not None and bool(self.target.splits.get("dev"))
        if asked == "auto":
            return "last" if self.shots is not None or self.ratio is not None or not dev else "dev"
        if asked == "dev" and self.target is not None and not dev:
            raise SetupError(
                f"target '{self.target.name}' has no dev split to select on",
                place="config.selection",
                expected="a dev split",
                fix="--hold-out 0.1, --set selection=held_out, or --set selection=last",
            )
        return asked

    @property
    def unused_dev(self) -> tuple[Sentence, ...]:
        """A dev split that this run does not learn from in any way, so that it is a second test split."""
        return self.target.splits.get("dev", ()) if self.target and self.setup.config.selection != "dev" else ()

    def build_method(self) -> Method:
        """The method on its data; a set-up that cannot work is refused here."""
        method = METHODS[self.method](self.setup)
        method.check()
        return method

    def identity(self) -> dict[str, Any]:
        """Everything that decides the result: written as config.yaml, and compared before resuming."""
        target, start = self.setup.target, None if self.start is None else str(self.start)
        data: dict[str, Any] = {"sources": {c.name: c.digest()[:16] for c in self.sources}}
        if target is not None:
            data |= {"target": target.name, "target_digest": target.digest()[:16]}
        data |= {"shots": self.shots, "ratio": self.ratio, "start": start}
        data["raw"] = {name: _raw_digest(rows)[:16] for name, rows in self.raw.items()}
        return to_dict(self.setup.config) | {"data": data}


def selected_on(target: Corpus, selection: Selection) -> Corpus:
    """The target as a method may see it: its dev split is what selects the weights."""
    if selection == "dev":
        return target
    hidden = replace(target, splits={name: s for name, s in target.splits.items() if name != "dev"})
    return hidden.hold_out(HELD_OUT) if selection == "held_out" else hidden


def with_batch_sizes(config: Config, target: Corpus | None, sources: Sequence[Corpus], pooled: bool = False) -> Config:
    """The config with a size for every batch that was left to the amount of data.

    Args:
        pooled: the stage on the target learns from the sources' sentences as well.
    """
    own, others = (
        sum(len(c.splits.get("train", ())) for c in corpora) for corpora in ([target] if target else [], sources)
    )
    learned = own + others if pooled else own
    return replace(config, train=_with_size(config.train, learned), pretrain=_with_size(config.pretrain, others))


def _with_size(stage: TrainConfig, sentences: int) -> TrainConfig:
    return stage if stage.batch_size else replace(stage, batch_size=batch_size(sentences))


def _raw_digest(rows: Sequence[Sentence]) -> str:
    return rows.digest() if isinstance(rows, RawText) else Corpus("", {"raw": tuple(rows)}).digest()


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
        Processes(settings.device) as processes,
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


def train_tagger(
    request: Request, method: Method, folder: Path, processes: Processes, quiet: bool, total: int = 0
) -> tuple[Tagger, dict[str, Any]]:
    """The trained tagger, and the result of each stage; ``total`` as in :class:`Training`.

    The hooks of a method are called in this order, and none relies on another having been called: ``pretrain``,
    ``teach``, ``train``, ``save_artifacts``, ``finish``, ``adapter``; then, for the results, ``run_notes`` and
    ``measures``.
    """
    config = method.config
    with TrainLogger(folder, quiet=quiet, tensorboard=config.tensorboard, main=processes.main) as logger:
        training = Training(method, folder, processes, logger, total)
        if request.start is None:
            model = training.run("pretrain", None)
        else:
            model = _pretrained(request.start, config).to(processes.device)
        model = training.run("train", training.run("teach", model))
    if model is None:
        raise SetupError(f"method '{request.method}' has nothing to train", fix="give it --source or --target corpora")
    if processes.main:
        method.save_artifacts(model, folder)
    model = method.finish(model)
    adapter = method.adapter(model, None if request.start is None else load_adapter(request.start))
    return Tagger(model, adapter=adapter), training.results


def facts_of(request: Request, method: Method, model: TaggingModel, stages: Mapping[str, Any]) -> dict[str, Any]:
    """What ``metrics.json`` says beside data and scores."""
    origin = {} if request.start is None else origin_of(request.start)
    facts: dict[str, Any] = {"start": origin or None, "phases": dict(stages)}
    if origin and not request.sources:
        facts["sources"] = origin["sources"]
    facts["selection"] = _selection(method, stages or origin.get("phases", {}))
    facts["remarks"] = collect_notes(method, model, stages, origin)
    return facts | method.measures(model)


def _selection(method: Method, stages: Mapping[str, Any]) -> str:
    """What chose the weights: the target's dev split if its labels were learned, else those of the sources."""
    scores = [stage["dev_f1"] for stage in stages.values()]
    if method.selected_by and scores:
        return method.selected_by
    if not scores or scores[-1] is None:
        block = "train" if any(not name.startswith("pretrain") for name in stages) else "pretrain"
        return "mean of the last weights" if getattr(method.config, block).average_last else "last"
    if not method.learns_labels:
        return "best dev F1 of the sources"
    return "best F1 on a fifth of the labels" if method.config.selection == "held_out" else "best dev F1"


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
        Processes(settings.device) as processes,
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


def _pretrained(folder: Path, config: Config) -> TaggingModel:
    model, meta = load_model(folder)
    theirs, ours = to_dict(model.encoder.config), to_dict(config.encoder)
    for key in ("kind", "recurrent", "options"):
        if theirs[key] != ours[key]:
            raise CheckpointError(
                f"was pretrained with encoder.{key} = {theirs[key]}",
                place=str(folder),
                expected=f"{ours[key]} as the settings of this run say",
                fix=f"omit the encoder's settings, or pretrain again (method: {meta.get('method')})",
            )
    return model


@dataclass
class Training:
    """The stages of a method, trained in the folder of a run."""

    method: Method
    folder: Path
    processes: Processes
    logger: TrainLogger
    total: int = 0  # updates on the target, where training goes on for longer than the settings say
    results: dict[str, dict[str, Any]] = field(default_factory=dict)  # of each training, by name

    def run(self, block: str, start: TaggingModel | None) -> TaggingModel | None:
        """The model after stage ``block`` (pretrain, teach or train); ``start`` itself if the method has none such."""
        times = 1 if block == "teach" else getattr(self.method.config, block).model_soup
        if times > 1:
            return self._run_soup(block, start, times)
        stage = self._stage(block, start)
        if stage is None:
            return start
        self._train(stage)
        return stage.model

    def _run_soup(self, block: str, start: TaggingModel | None, times: int) -> TaggingModel | None:
        """Train several times from the same start; the first model gets the average of the weights."""
        soup = ModelSoup()
        for k in range(1, times + 1):
            stage = self._stage(block, copy.deepcopy(start))  # building a stage changes the model it starts from
            if stage is None:
                return start
            if k > 1:
                draw_anew(stage, k)
            soup.add(stage, self._train(stage).best)
            del stage  # frees memory before the next is built
        average = soup.average(self._loop(soup.first).score)
        self.results[f"{AVERAGE}{soup.first.name}"] = average
        return soup.first.model

    def _stage(self, block: str, start: TaggingModel | None) -> TrainingStage | None:
        if block == "pretrain":
            return self.method.pretrain()
        return self.method.teach(start) if block == "teach" else self.method.train(start)

    def _loop(self, stage: TrainingStage) -> Loop:
        stage.model.to(self.processes.device)
        last = stage.name.startswith("train")
        alone = last and stage.config.model_soup == 1
        total = self.total if last else 0
        return Loop(stage, self.folder / "state", self.processes, self.logger, keep_last=alone, total=total)

    def _train(self, stage: TrainingStage) -> Progress:
        loop = self._loop(stage)
        progress = loop.run()
        result: dict[str, Any] = {"steps": progress.step, "best_step": progress.best_step, "dev_f1": None}
        result[stage.score_name] = progress.best
        result["total"] = loop.budget.total
        entries = [e for e in self.logger.entries() if e["phase"] == stage.name]
        losses = [e["loss"] for e in entries if "loss" in e]
        if losses:
            result |= {"first_loss": losses[0], "last_loss": losses[-1]}
        for name in stage.reported:
            if last := [e[name] for e in entries if e.get(name) is not None]:
                result[name] = last[-1]
        for monitor in stage.monitors:  # the best of all epochs: chosen by looking at it
            result[monitor] = max(entry[monitor] for entry in self.logger.entries() if entry["phase"] == stage.name)
        self.results[stage.name] = result
        return progress
