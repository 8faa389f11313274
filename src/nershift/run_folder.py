"""The folder of a run: made or found again by what decides its result, and read when the run is finished."""

from __future__ import annotations

import difflib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nershift.data.spans import Sentence
from nershift.errors import CheckpointError, OtherRunError
from nershift.evaluation.predictions import read_predictions
from nershift.storage import clear_leftovers, write_text
from nershift.tagger.tagger import Tagger
from nershift.training.processes import Processes


@dataclass(frozen=True)
class Run:
    """The folder of a finished run.

    Example:
        >>> run = Run.open("runs/news-1")
        >>> run.metrics["method"], run.f1 == run.metrics["test"]["f1"], run.tagger().types
        ('target_only', True, ('person', 'place'))
        >>> gold, predicted = run.predictions()
        >>> len(gold) == len(predicted)
        True
    """

    folder: Path
    metrics: dict[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        path = Path(folder) / "metrics.json"
        if not path.exists():
            raise CheckpointError("not a finished run", place=str(folder), expected="a folder with metrics.json")
        return cls(Path(folder), json.loads(path.read_text(encoding="utf-8")))

    @property
    def f1(self) -> float:
        """Micro F1 on test."""
        if "test" not in self.metrics:
            raise CheckpointError("was not scored: its target has no test split", place=str(self.folder))
        return float(self.metrics["test"]["f1"])

    def tagger(self, device: str = "cpu") -> Tagger:
        return Tagger.load(self.folder, device)

    def predictions(self) -> tuple[list[Sentence], list[Sentence]]:
        """Gold and predicted test sentences."""
        return read_predictions(self.folder / "predictions.jsonl")


def open_folder(out: Path, identity: Mapping[str, Any], overwrite: bool, processes: Processes) -> Path:
    """The folder of this very run, new or to be resumed; another run's folder is refused."""
    import yaml

    text = yaml.safe_dump(dict(identity), sort_keys=False, allow_unicode=True)
    path = out / "config.yaml"
    if processes.main:
        if overwrite and path.exists():  # never a folder that no run has written
            shutil.rmtree(out)
        for folder in (out, out / "state"):
            clear_leftovers(folder)
        if path.exists():
            before = path.read_text(encoding="utf-8")
            begun = any(p != path for p in out.iterdir())  # a run that failed at once leaves nothing to protect
            if before != text and begun:
                changed = [x for x in difflib.ndiff(before.split("\n"), text.split("\n")) if x[:2] in ("- ", "+ ")]
                raise OtherRunError(
                    "holds a run with other settings or data:\n    " + "\n    ".join(changed[:8]),
                    place=str(out),
                    fix="choose another --out, or --overwrite to throw the old run away",
                )
        elif out.exists() and any(out.iterdir()):
            raise CheckpointError(
                "is not empty and holds no run", place=str(out), fix="choose another --out, or empty it"
            )
        write_text(path, text)
    processes.wait()
    return out
