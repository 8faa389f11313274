"""The folder of a run: opened or resumed, filled with results, and read."""

from __future__ import annotations

import difflib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nershift import __version__
from nershift.data.spans import Sentence
from nershift.errors import CheckpointError, OtherRunError
from nershift.evaluation.metrics import score, sentence_counts, share_changed
from nershift.evaluation.predictions import read_predictions, write_predictions
from nershift.evaluation.stats import bootstrap_f1
from nershift.methods.base import Method
from nershift.reports.run import write_report
from nershift.storage import clear_leftovers, write_text
from nershift.tagger.calibration import before_and_after
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
    """The folder of exactly this run, new or to be resumed; another run's folder is refused."""
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
            begun = any(p != path for p in out.iterdir())  # a run that failed at once left nothing to protect
            if before != text and begun:
                changed = [x for x in difflib.ndiff(before.split("\n"), text.split("\n")) if x[:2] in ("- ", "+ ")]
                raise OtherRunError(
                    "holds a run with other settings or data:\n    " + "\n    ".join(changed[:8]),
                    place=str(out),
                    fix="choose another --out, or --overwrite to delete the old run",
                )
        elif out.exists() and any(out.iterdir()):
            raise CheckpointError(
                "is not empty and holds no run", place=str(out), fix="choose another --out, or empty it"
            )
        write_text(path, text)
    processes.wait()
    return out


def write_results(folder: Path, tagger: Tagger, method: Method, facts: Mapping[str, Any]) -> None:
    """Write predictions, the tagger and, last of all, ``metrics.json``: with it the run is finished."""
    config, target = method.config, method.target
    tagger.meta |= {"method": config.method, "preset": config.preset, "seed": config.seed, "target": target.name}
    metrics: dict[str, Any] = {
        **tagger.meta,
        "sources": [c.name for c in method.setup.sources if method.uses_sources],
        "labelled": len(target.splits.get("train", ())),
        **facts,
        "seconds": round(facts["seconds"], 2),
        "device": str(tagger.model.device),
        "version": __version__,
    }
    tagger.model.head(tagger.key).temperature = 1.0
    if target.splits.get("dev") and method.learns_labels:
        tagger.calibrate(target.splits["dev"], config.train.eval_batch_size)
    metrics["calibration"] = dict(tagger.meta.get("calibration", {}))
    for name in ("dev", "test"):
        if gold := target.splits.get(name):
            predicted = _score_split(name, tagger, gold, config.train.eval_batch_size, metrics)
            if name == "test":
                write_predictions(folder / "predictions.jsonl", gold, predicted)
    tagger.meta["metrics"] = {k: metrics[k]["f1"] for k in ("dev", "test") if k in metrics}
    tagger.save(folder)
    write_text(folder / "metrics.json", json.dumps(metrics, indent=1))


def _score_split(
    name: str, tagger: Tagger, gold: Sequence[Sentence], batch_size: int, metrics: dict[str, Any]
) -> list[Sentence]:
    """Predict a split and add its scores to ``metrics``."""
    predicted, uncalibrated = tagger.tag_twice(gold, batch_size)
    if tagger.adapter is not None:
        plain, predicted = predicted, tagger.adapt_sentences(gold)
        metrics[f"{name}_adaptation"] = {
            "f1_before": score(gold, plain).f1,
            "tokens_changed": share_changed(plain, predicted),
            **tagger.adapter.measures(),
        }
    before = uncalibrated if tagger.adapter is None else None
    metrics["calibration"][name] = before_and_after(gold, before, predicted)
    interval = bootstrap_f1(sentence_counts(gold, predicted))
    metrics[name] = score(gold, predicted).to_dict() | {"interval": [interval.low, interval.high]}
    return predicted


def finish_folder(folder: Path, report: bool) -> None:
    """Tidy up after the results are written; a run that was killed before this point catches up."""
    shutil.rmtree(folder / "state", ignore_errors=True)
    if report and not (folder / "report.html").exists():
        write_report(folder)
