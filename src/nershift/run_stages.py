"""The stages of a method, trained one after the other, and what they say of themselves."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nershift.config import Config, to_dict
from nershift.errors import CheckpointError, SetupError
from nershift.methods.adapter import load_adapter
from nershift.methods.base import Method
from nershift.model import TaggingModel
from nershift.model_store import load_model
from nershift.run_folder import collect_notes, origin_of
from nershift.run_request import Request
from nershift.tagger.tagger import Tagger
from nershift.training.logger import TrainLogger
from nershift.training.loop import Loop, Progress
from nershift.training.model_soup import AVERAGE, ModelSoup, draw_anew
from nershift.training.processes import Processes
from nershift.training.stage import TrainingStage


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
