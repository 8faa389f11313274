"""What a run says about itself beside its scores: where it began, what it did not use, what flatters it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nershift.config import Config, TrainConfig, read_yaml
from nershift.methods import METHODS
from nershift.methods.base import Method
from nershift.run_folder import Run
from nershift.training.model_soup import AVERAGE

_EXTRAS = ("model_soup", "fgm_epsilon", "mention_replacement")  # settings that cost time or change what is trained on
_SHORT = 3  # sentences of so few tokens ("No change .") may well stand in two corpora


def unused(task: Method) -> list[str]:
    """That sources were given to a method that has no use for them: grids and curves do so."""
    if task.uses_sources or not task.setup.sources:
        return []
    names = ", ".join(c.name for c in task.setup.sources)
    return [f"Method '{task.name}' learned from the target alone: it did not use the sources ({names})."]


def leaks(task: Method) -> list[str]:
    """Test sentences that a source was trained on, word for word: the score would flatter the method."""
    setup = task.setup
    assert setup.target is not None
    test = [s for s in setup.target.splits.get("test", ()) if len(s) > _SHORT]
    told = []
    for source in setup.sources if task.uses_sources else ():
        known = {s.tokens for s in source.splits.get("train", ())}
        if shared := sum(s.tokens in known for s in test):
            told.append(
                f"{shared} of {len(setup.target.test)} test sentences are in the training text of source "
                f"'{source.name}': the score on test is too good by what was learned from them."
            )
    return told


def origin_of(start: Path) -> dict[str, Any]:
    """What the folder that a run starts from has learned: it stands in ``metrics.json`` as ``start``."""
    meta = json.loads((start / "model.json").read_text(encoding="utf-8"))["meta"]
    told: dict[str, Any] = {
        "folder": start.resolve().name,
        "kind": "pretraining",
        "method": meta.get("method"),
    }
    data = read_yaml(start / "config.yaml").get("data", {}) if (start / "config.yaml").exists() else {}
    told |= {"sources": list(data.get("sources", {})), "phases": meta.get("phases", {})}
    if (start / "metrics.json").exists():
        metrics = Run.open(start).metrics
        cls = METHODS.get(str(metrics.get("method")))
        labelled = metrics.get("labelled", 0) if cls is None or cls.uses_target_labels else 0
        told |= {"kind": "finished run", "target": metrics.get("target"), "labelled": labelled}
        told |= {key: metrics[key] for key in ("sources", "phases") if key in metrics}
    return told


def beginning(origin: Mapping[str, Any]) -> list[str]:
    """Where the run began, in words."""
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
    """Settings of a stage that the run did not have."""
    told, plain = [], TrainConfig()
    for block, what in (("pretrain", "pre-training"), ("train", "training on the target")):
        asked = [n for n in _EXTRAS if getattr(getattr(config, block), n) != getattr(plain, n)]
        if asked and block not in stages:
            names = ", ".join(f"{block}.{name}" for name in asked)
            told.append(f"There was no {what} in this run: {names} had no effect.")
    return told


def averaged(stages: Mapping[str, Any]) -> list[str]:
    """Of which trainings the weights are the mean."""
    told = []
    for name, stage in stages.items():
        if not name.startswith(AVERAGE):
            continue
        kind, of = name.removeprefix(AVERAGE), stage["of"]
        made = sum(other == kind or other.startswith(f"{kind}-") for other in stages)
        what = f"the mean of {len(of)}" if len(of) > 1 else "those of one"
        which = "The weights are" if kind == "train" else "The weights that training started from are"
        told.append(
            f"{which} {what} of {made} trainings from the same start ({', '.join(of)})"
            + (": no dev split chose." if stage["dev_f1"] is None else ", as dev chose.")
        )
    return told
