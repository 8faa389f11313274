"""Notes of a run on its own result: where it began, what it did not use, what flatters the score."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nershift.config import Config, TrainConfig, read_yaml
from nershift.methods import METHODS
from nershift.methods.base import Method
from nershift.model import TaggingModel
from nershift.run_folder import Run
from nershift.training.model_soup import AVERAGE

_EXTRAS = ("model_soup", "fgm_epsilon", "mention_replacement")  # settings that cost time or change what is trained on
_SHORT = 3  # tokens: a sentence as short as "No change ." may occur in two corpora


def collect_notes(
    method: Method, model: TaggingModel, stages: Mapping[str, Any], origin: Mapping[str, Any]
) -> list[str]:
    """All notes on a finished run, as they stand in ``metrics.json`` and in the report."""
    notes = [*beginning(origin), *averaged(stages), *idle(method.config, stages)]
    return [*notes, *method.run_notes(model), *unused(method), *leaks(method)]


def unused(method: Method) -> list[str]:
    """Sources that the method has no use for: grids and curves pass them to every method."""
    if method.uses_sources or not method.setup.sources:
        return []
    names = ", ".join(c.name for c in method.setup.sources)
    return [f"Method '{method.name}' learned from the target alone: it did not use the sources ({names})."]


def leaks(method: Method) -> list[str]:
    """Test sentences that a source was trained on, word for word: they flatter the score."""
    test = [s for s in method.target.splits.get("test", ()) if len(s) > _SHORT]
    notes = []
    for source in method.setup.sources if method.uses_sources else ():
        known = {s.tokens for s in source.splits.get("train", ())}
        if shared := sum(s.tokens in known for s in test):
            notes.append(
                f"{shared} of {len(method.target.test)} test sentences are in the training text of source "
                f"'{source.name}': the score on test is too good by what was learned from them."
            )
    return notes


def origin_of(start: Path) -> dict[str, Any]:
    """What the folder that a run starts from has learned, as ``metrics.json`` has it under ``start``."""
    meta = json.loads((start / "model.json").read_text(encoding="utf-8"))["meta"]
    origin: dict[str, Any] = {
        "folder": start.resolve().name,
        "kind": "pretraining",
        "method": meta.get("method"),
    }
    data = read_yaml(start / "config.yaml").get("data", {}) if (start / "config.yaml").exists() else {}
    origin |= {"sources": list(data.get("sources", {})), "phases": meta.get("phases", {})}
    if (start / "metrics.json").exists():
        metrics = Run.open(start).metrics
        cls = METHODS.get(str(metrics.get("method")))
        labelled = metrics.get("labelled", 0) if cls is None or cls.uses_target_labels else 0
        origin |= {"kind": "finished run", "target": metrics.get("target"), "labelled": labelled}
        origin |= {key: metrics[key] for key in ("sources", "phases") if key in metrics}
    return origin


def beginning(origin: Mapping[str, Any]) -> list[str]:
    """Where the run began."""
    if not origin:
        return []
    facts = [f"method {origin['method']}"] if origin["method"] else []
    if origin["sources"]:
        facts.append(f"sources: {', '.join(origin['sources'])}")
    if origin.get("labelled"):
        facts.append(f"{origin['labelled']} labelled sentences of {origin['target']}")
    known = f" ({'; '.join(facts)})" if facts else ""
    more = " It knew those labels before it saw the ones counted here." if origin.get("labelled") else ""
    return [f"Started from the {origin['kind']} in '{origin['folder']}'{known}.{more}"]


def idle(config: Config, stages: Mapping[str, Any]) -> list[str]:
    """Settings of a stage that did not take place."""
    notes, plain = [], TrainConfig()
    for block, what in (("pretrain", "pre-training"), ("train", "training on the target")):
        chosen = [n for n in _EXTRAS if getattr(getattr(config, block), n) != getattr(plain, n)]
        if chosen and block not in stages:
            names = ", ".join(f"{block}.{name}" for name in chosen)
            notes.append(f"There was no {what} in this run: {names} had no effect.")
    return notes


def averaged(stages: Mapping[str, Any]) -> list[str]:
    """Which trainings the weights are the mean of."""
    notes = []
    for name, stage in stages.items():
        if not name.startswith(AVERAGE):
            continue
        kind, of = name.removeprefix(AVERAGE), stage["of"]
        trainings = sum(other == kind or other.startswith(f"{kind}-") for other in stages)
        what = f"the mean of {len(of)}" if len(of) > 1 else "those of one"
        which = "The weights are" if kind == "train" else "The weights that training started from are"
        notes.append(
            f"{which} {what} of {trainings} trainings from the same start ({', '.join(of)})"
            + (": no dev split chose." if stage["dev_f1"] is None else ", as dev chose.")
        )
    return notes
