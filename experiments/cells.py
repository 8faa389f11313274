"""A cell is one run of an experiment. Its key, a hash of what decides the outcome, finds its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from experiments.spec_names import current_names, first_names, run_settings
from nershift.config import merge

Labels = Literal["own", "homogeneous"]
_SHARED = {"source_only": "finetune", "selftrain": "finetune", "teacher_student": "finetune"}


@dataclass(frozen=True)
class Cell:
    """What one run does. Corpora are catalog names; ``config`` holds settings over the method's preset.

    ``row`` names the cell in a table where the method's name does not (an ablation, a value of λ).
    ``joint`` says that pre-training looks at the target too, so that it cannot be shared between targets.
    ``raw`` gives unlabelled text by domain: ``NAME``, ``NAME:SPLIT`` (labels taken off) or either with ``@COUNT``.
    ``train_on_dev`` trains on dev too, so that the last epoch is kept.
    ``disjoint`` takes sentences out of a source that stand in the dev or test split of another source.
    ``teachers`` are runs whose models label the raw text (``teacher_student``); a spec has their keys.
    ``keep_log`` keeps what was logged after every epoch with the result, ``keep_spans`` what was predicted.
    """

    table: str
    method: str
    target: str
    sources: tuple[str, ...]
    seed: int
    config: Mapping[str, Any] = field(default_factory=dict)
    shots: int | None = None
    ratio: float | None = None
    labels: Labels = "own"
    row: str = ""
    joint: bool = True
    raw: tuple[tuple[str, str], ...] = ()
    keep_log: bool = False
    train_on_dev: bool = False
    disjoint: bool = False
    keep_spans: bool = False
    teachers: tuple[Cell, ...] = ()

    @classmethod
    def of(cls, spec: Mapping[str, Any], **more: Any) -> Cell:
        """The cell that a result's ``spec`` describes, but for its teachers; ``more`` is what a spec does not say."""
        fields = {**current_names(spec), "sources": tuple(spec["sources"])}
        fields.pop("teachers", None)
        if "raw" in spec:
            fields["raw"] = tuple((domain, text) for domain, text in spec["raw"])
        return cls(**({"table": ""} | fields | more))

    @property
    def name(self) -> str:
        return self.row or self.method

    @property
    def settings(self) -> dict[str, Any]:
        """What to run it with: its config over the defaults that the first results had."""
        few = (self.shots is not None or self.ratio is not None) and not self.train_on_dev
        return run_settings(self.method, self.config, few)

    def spec(self) -> dict[str, Any]:
        """What decides the result: everything but the table and row under which it is shown."""
        apart = ("table", "row", "joint", "keep_log", "keep_spans")
        shown = {k: v for k, v in vars(self).items() if k not in apart} | {"teachers": [c.key for c in self.teachers]}
        # Younger fields leave the keys of older results as they are.
        return {k: v for k, v in shown.items() if k not in ("raw", "train_on_dev", "disjoint", "teachers") or v}

    @property
    def key(self) -> str:
        return key_of(self.spec())

    @property
    def pretraining(self) -> str | None:
        """Names the pre-training that this cell shares with others, if it can share one."""
        if self.joint:
            return None
        config = {k: v for k, v in self.config.items() if not (k == "options" and self.other_options)}
        first = first_names({"method": self.pretrained_by, "config": config})
        stage = {k: v for k, v in first["config"].items() if k not in ("train", "selection")}
        for block in {"decoder", "options"} & stage.keys():  # how the target's head starts is no matter of the sources
            stage[block] = {k: v for k, v in stage[block].items() if k not in ("start", "same", "new_rows")}
        what = [first["method"], self.sources, self.seed, self.labels, stage]
        return _digest([*what, "disjoint"] if self.disjoint else what)

    @property
    def pretrained_by(self) -> str:
        """The method whose pre-training this one starts from; a student with LANER's head starts from LANER's."""
        if self.method == "teacher_student" and self.config.get("head", {}).get("kind") == "label-aware":
            return "laner"
        return _SHARED.get(self.method, self.method.removesuffix("-zero").removesuffix("-few"))

    @property
    def other_options(self) -> bool:
        """Are the cell's options unknown to the method of its pre-training?"""
        return self.method in _SHARED

    @property
    def paper(self) -> str:
        """The folder of its table: names of tables begin with it."""
        return self.table.partition("-")[0]

    def with_config(self, over: Mapping[str, Any]) -> Cell:
        return Cell(**{**vars(self), "config": merge(self.config, over)})


def key_of(spec: Mapping[str, Any]) -> str:
    """The same for a spec under the names of any time."""
    return _digest(first_names(spec))


def run_name(spec: Mapping[str, Any]) -> str:
    """A name for people, which the key makes unique."""
    amount = next((f"-{spec[k]}" for k in ("shots", "ratio") if spec[k] is not None), "")
    return f"{spec['target']}-{first_names(spec)['method']}{amount}-s{spec['seed']}-{key_of(spec)}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
