"""The folder of a run: opened or resumed, filled with scores and notes, and read."""

from __future__ import annotations

import difflib
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nershift import __version__
from nershift.arguments import as_path
from nershift.config import Config, TrainConfig, read_yaml, to_dict
from nershift.data.spans import Sentence
from nershift.errors import CheckpointError, OtherRunError
from nershift.evaluation.calibration import before_and_after
from nershift.evaluation.metrics import score, sentence_counts, share_changed
from nershift.evaluation.predictions import read_predictions, write_predictions
from nershift.evaluation.run_warnings import run_warnings
from nershift.evaluation.stats import bootstrap_f1
from nershift.folder_lock import LOCK_FILE, FolderLock
from nershift.methods import METHODS
from nershift.methods.base import Method
from nershift.model import TaggingModel
from nershift.parsing import parse_yaml
from nershift.reports.content import flat
from nershift.reports.run import read_log, read_metrics, write_report
from nershift.storage import clear_leftovers, write_text
from nershift.tagger.tagger import Tagger
from nershift.training.model_soup import AVERAGE
from nershift.training.processes import Processes

_EXTRAS = ("model_soup", "fgm_epsilon", "mention_replacement")  # settings that cost time or change what is trained on
LAST_STATE = Path("state", "train.checkpoint.safetensors")  # what a finished run can go on from
_SHORT = 3  # tokens: a sentence as short as "No change ." may occur in two corpora


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
        folder = as_path(folder, "Run.open", "the folder of a finished run")
        if not (folder / "metrics.json").exists():
            raise CheckpointError("not a finished run", place=str(folder), expected="a folder with metrics.json")
        return cls(folder, read_metrics(folder))

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


def lock(out: Path, processes: Processes) -> AbstractContextManager[object]:
    """Nobody else may train into the folder meanwhile: two runs in one folder would mix their files."""
    if not processes.main:
        return nullcontext()
    return FolderLock(out, "another training", "wait until it has ended, or choose another --out")


@contextmanager
def open_folder(out: Path, identity: Mapping[str, Any], overwrite: bool, processes: Processes) -> Iterator[Path]:
    """The folder of exactly this run, new or to be resumed, and locked; another run's folder is refused."""
    with lock(out, processes):
        _prepare(out, identity, overwrite, processes)
        yield out


def _prepare(out: Path, identity: Mapping[str, Any], overwrite: bool, processes: Processes) -> None:
    import yaml

    text = yaml.safe_dump(dict(identity), sort_keys=False, allow_unicode=True)
    path = out / "config.yaml"
    if processes.main:
        if overwrite and path.exists():  # never a folder that no run has written
            _empty(out)
        for folder in (out, out / "state"):
            clear_leftovers(folder)
        if path.exists():
            before = path.read_text(encoding="utf-8", errors="replace")
            begun = any(
                p.name not in (path.name, LOCK_FILE) for p in out.iterdir()
            )  # a run that failed at once left nothing to protect
            if before != text and begun:
                changed = changed_settings(before, text, path)
                raise OtherRunError(
                    "holds a run with other settings or data:\n    " + "\n    ".join(changed[:8]),
                    place=str(out),
                    fix="choose another --out, or --overwrite to delete the old run",
                )
        elif any(p.name != LOCK_FILE for p in out.iterdir()):
            raise CheckpointError(
                "is not empty and holds no run", place=str(out), fix="choose another --out, or empty it"
            )
        write_text(path, text)
    processes.wait()


def changed_settings(before: str, after: str, place: Path) -> list[str]:
    """What differs between two config files: ``- train.lr: 0.02`` and ``+ train.lr: 0.01``, with whole names."""
    try:
        old, new = ([f"{name}: {value}" for name, value in flat(parse_yaml(text) or {})] for text in (before, after))
    except (ValueError, AttributeError):
        fix = "restore it, or --overwrite to delete the old run"
        raise CheckpointError("not readable YAML", place=str(place), expected="settings of a run", fix=fix) from None
    return [line for line in difflib.ndiff(old, new) if line[:2] in ("- ", "+ ")]


def _empty(folder: Path) -> None:
    """Delete what a folder holds, but for its lock."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != LOCK_FILE:
            path.unlink()


def write_results(
    folder: Path, tagger: Tagger, method: Method, facts: Mapping[str, Any], unused_dev: Sequence[Sentence] = ()
) -> None:
    """Write predictions, the tagger and, last of all, ``metrics.json``: with it the run is finished.

    Args:
        unused_dev: a dev split that selected nothing; it is only scored.
    """
    config, target = method.config, method.target
    tagger.meta |= {"method": config.method, "preset": config.preset, "seed": config.seed, "target": target.name}
    metrics: dict[str, Any] = {
        **tagger.meta,
        "sources": [c.name for c in method.setup.sources if method.uses_sources],
        "labelled": len(_labelled(method)),
        **facts,
        "seconds": round(facts["seconds"], 2),
        "device": str(tagger.model.device),
        "version": __version__,
    }
    tagger.model.head(tagger.key).temperature = 1.0
    if target.splits.get("dev") and method.learns_labels:
        tagger.calibrate(target.splits["dev"], config.train.eval_batch_size)
    metrics["calibration"] = dict(tagger.meta.get("calibration", {}))
    for name, gold in (("dev", unused_dev or target.splits.get("dev")), ("test", target.splits.get("test"))):
        if gold:
            predicted = _score_split(name, tagger, gold, config.train.eval_batch_size, metrics)
            if name == "test":
                write_predictions(folder / "predictions.jsonl", gold, predicted)
    if method.learns_labels:
        counts = Counter(span.label for s in _labelled(method) for span in s.spans)
        metrics["labelled_mentions"] = dict(sorted(counts.items()))
    metrics["resumable"] = (folder / LAST_STATE).exists()
    metrics["warnings"] = [asdict(w) for w in run_warnings(metrics, read_log(folder / "log.jsonl"), to_dict(config))]
    tagger.meta["metrics"] = {k: metrics[k]["f1"] for k in ("dev", "test") if k in metrics}
    tagger.save(folder)
    write_text(folder / "metrics.json", json.dumps(metrics, indent=1))


def _labelled(method: Method) -> list[Sentence]:
    """The labelled sentences of the target that the run had, those held out to select the weights included."""
    names = ("train", "dev") if method.config.selection == "held_out" else ("train",)
    return [s for name in names for s in method.target.splits.get(name, ())]


def _score_split(
    name: str, tagger: Tagger, gold: Sequence[Sentence], batch_size: int, metrics: dict[str, Any]
) -> list[Sentence]:
    """Predict a split and add its scores to ``metrics``."""
    predicted, uncalibrated = tagger.predict_uncalibrated(gold, batch_size)
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
    if not (folder / LAST_STATE).exists():
        shutil.rmtree(folder / "state", ignore_errors=True)
    if report and not (folder / "report.html").exists():
        write_report(folder)


# -- notes on a result: where it began, what it did not use, what flatters it --------------------------------


def collect_notes(
    method: Method, model: TaggingModel, stages: Mapping[str, Any], origin: Mapping[str, Any]
) -> list[str]:
    """All notes on a finished run, as they stand in ``metrics.json`` and in the report."""
    notes = [*beginning(origin), *averaged(stages), *idle(method.config, stages)]
    return [*notes, *method.run_notes(model), *unused(method), *left_out(method), *leaks(method)]


def unused(method: Method) -> list[str]:
    """Sources that the method has no use for: grids and curves pass them to every method."""
    if method.uses_sources or not method.setup.sources:
        return []
    names = ", ".join(c.name for c in method.setup.sources)
    return [f"Method '{method.name}' learned from the target alone: it did not use the sources ({names})."]


def left_out(method: Method) -> list[str]:
    """Sentences of unlabelled text that the tagger is scored on, which no method gets to see."""
    return [
        f"{count:,} sentences of the raw text '{name}' are in the dev or test split of '{method.target.name}', but for "
        "case and punctuation: they were left out."
        for name, count in method.setup.left_out.items()
    ]


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
