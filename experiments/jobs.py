"""What a worker does: one pre-training, or one cell from corpora to result file."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import platform
import shutil
import subprocess
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import nershift
from experiments.cells import Cell, Labels
from experiments.costs import config_of
from experiments.error_analysis import pack_spans, summarise_errors
from experiments.metaner.homogeneous import homogeneous_map
from experiments.plan import Job, model_folder
from experiments.store import write_finished
from nershift import run
from nershift.config import TrainConfig, merge
from nershift.dapt.stage import fingerprint
from nershift.data.catalog import locate
from nershift.data.corpus import Corpus, subset
from nershift.data.formats import read_corpus
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.evaluation.metrics import sentence_counts, token_scores
from nershift.methods import METHODS
from nershift.storage import write_text

HOLD_OUT = 0.1  # share of train used as dev where a corpus has none; the same sentences in every run
_FACTS = "bench.json"  # in the folder of a pre-training: for the results that start from it


@lru_cache(maxsize=64)
def corpus(name: str, labels: Labels) -> Corpus:
    whole = read_corpus(name)
    if "dev" not in whole.splits and "train" in whole.splits:
        whole = whole.hold_out(HOLD_OUT)
    return whole.mapped(homogeneous_map(name)) if labels == "homogeneous" else whole


@lru_cache(maxsize=16)
def raw_text(described: str) -> Sequence[Sentence]:
    """The text that ``NAME``, ``NAME:SPLIT``, ``NAME@COUNT`` or ``NAME:SPLIT@COUNT`` stands for."""
    name, _, count = described.partition("@")
    name, _, split = name.partition(":")
    text: Sequence[Sentence]
    if split:
        text = [s.with_spans(()) for s in corpus(name, "own").split(split)]
    else:
        text = RawText(next(iter(sorted(locate(name).glob("raw.txt*")))))
    return text[: int(count)] if count else text


@dataclass(frozen=True)
class Failure:
    """Why a job has no result. ``memory``: it ran out; ``fatal``: the process cannot be used again."""

    error: str
    summary: str
    memory: bool = False
    fatal: bool = False


def run_job(job: Job, work: Path, provenance: Mapping[str, Any]) -> Failure | None:
    """Run a job and free all its memory, whatever happens."""
    failure: Failure | None = None
    try:
        if job.pretrain:
            run_pretraining(job.cell, work, halved=job.halved)
        else:
            run_cell(job.cell, work, provenance=provenance, halved=job.halved, keep=job.keep)
    except Exception as error:
        summary = f"{type(error).__name__}: {error}".splitlines()[0]
        failure = Failure(traceback.format_exc().strip(), summary, out_of_memory(error))
    gc.collect()
    try:
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
            torch.cuda.synchronize()
    except RuntimeError:  # some errors leave the CUDA context unusable
        return replace(failure, fatal=True) if failure is not None else None
    return failure


def out_of_memory(error: BaseException) -> bool:
    """Did the GPU's or the host's memory run out? Libraries other than torch only say so in the message."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    said = str(error).lower()
    return isinstance(error, RuntimeError) and any(
        words in said for words in ("out of memory", "alloc_failed", "can't allocate memory")
    )


def smaller(cell: Cell, halved: int) -> dict[str, Any]:
    """The cell's settings with batches halved this often and as many more of them per step.

    An epoch of the loop has a step for each batch of a sampler, so that with half the batch and twice the batches a
    step it passes twice over the text: where epochs give the length, they, patience and decay are counted anew. The
    updates stay the same in number and size; the model is selected less often.
    """
    if not halved:
        return cell.settings
    config = config_of(cell)
    return merge(cell.settings, {name: _halved(getattr(config, name), 2**halved) for name in ("pretrain", "train")})


def _halved(stage: TrainConfig, parts: int) -> dict[str, Any]:
    over: dict[str, Any] = {
        "batch_size": max(1, stage.batch_size // parts),
        "accumulate": stage.accumulate * parts,
        "eval_batch_size": max(1, stage.eval_batch_size // parts),
    }
    if stage.epochs:
        over |= {
            "epochs": max(1, round(stage.epochs / parts)),
            "patience": -(-stage.patience // parts),
            "lr_decay": stage.lr_decay * parts,
        }
    return over


def run_pretraining(cell: Cell, work: Path, *, halved: int = 0) -> None:
    folder = work / f"pretrained-{cell.pretraining}"
    if (folder / "model.json").exists():
        return
    trial = work / f"{folder.name}{_suffix(halved)}"
    fresh, began, cpu = not trial.exists(), time.monotonic(), time.process_time()
    unknown = ("train", "options") if cell.other_options else ("train",)
    config = {k: v for k, v in smaller(cell, halved).items() if k not in unknown}
    run.pretrain(cell.pretrained_by, _sources(cell), out=trial, config=config, seed=cell.seed, quiet=True)
    facts: dict[str, Any] = {}
    if fresh:
        facts["pretrain_seconds"] = round(time.monotonic() - began, 2)
        facts["pretrain_cpu_seconds"] = round(time.process_time() - cpu, 2)
    write_text(trial / _FACTS, json.dumps(facts | _shrunk(halved, "pre-training")))
    if trial != folder:
        shutil.rmtree(folder, ignore_errors=True)
        trial.rename(folder)


def run_cell(
    cell: Cell, work: Path, *, provenance: Mapping[str, Any] | None = None, halved: int = 0, keep: bool = False
) -> None:
    """``provenance``: code and machine, if not those of this process; ``keep``: the model, since it is to teach."""
    folder = work / f"cell-{cell.key}{_suffix(halved)}"
    start = work / f"pretrained-{cell.pretraining}" if cell.pretraining else None
    fresh, cpu, config = not folder.exists(), time.process_time(), smaller(cell, halved)
    if cell.teachers:
        config = merge(config, {"options": {"teacher": [str(model_folder(work, t).resolve()) for t in cell.teachers]}})
    done = run.transfer(
        cell.method,
        _target(cell),
        () if start and not METHODS[cell.method].keeps_sources else _sources(cell),
        out=folder,
        shots=cell.shots,
        ratio=cell.ratio,
        raw={name: raw_text(text) for name, text in cell.raw},
        start=start,
        config=config,
        seed=cell.seed,
        quiet=True,
        report=False,
    )
    spent = {"cpu_seconds": round(time.process_time() - cpu, 2)} if fresh else {}
    gold, predicted = done.predictions()
    metrics = {**done.metrics, **spent, "test_tokens": token_scores(gold, predicted).to_dict()}
    analysis: dict[str, Any] = {"errors": summarise_errors(gold, predicted, _labelled(cell))}
    if start is not None:  # the name says which pre-training; the path is of this machine only
        metrics["data"] = {**metrics["data"], "start": start.name}
        if (start / _FACTS).exists():
            metrics |= json.loads((start / _FACTS).read_text("utf-8"))
    if halved:
        metrics["smaller"] = metrics.get("smaller", []) + _shrunk(halved, "training")["smaller"]
    if cell.keep_log:
        metrics["log"] = [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]
    if cell.keep_spans:
        dev = done.tagger(metrics["device"]).tag_sentences(_target(cell).dev)
        analysis["spans"] = {"dev": pack_spans(dev), "test": pack_spans(predicted)}
    if keep:
        shutil.rmtree(folder / "state", ignore_errors=True)
        shutil.rmtree(model_folder(work, cell), ignore_errors=True)
        shutil.copytree(folder, model_folder(work, cell))
    write_finished(work, cell, metrics, sentence_counts(gold, predicted), provenance or origin(), **analysis)
    for tried in work.glob(f"cell-{cell.key}*"):
        shutil.rmtree(tried)


def _suffix(halved: int) -> str:
    """Runs with other batch sizes have folders of their own."""
    return f"-batch-{2**halved}th" if halved else ""


def _shrunk(halved: int, stage: str) -> dict[str, list[str]]:
    """The note of a result whose run needed smaller batches."""
    if not halved:
        return {}
    return {"smaller": [f"{stage} out of memory: batches divided by {2**halved}, as many more of them a step"]}


def _target(cell: Cell) -> Corpus:
    target = corpus(cell.target, cell.labels)
    if not cell.train_on_dev:
        return target
    rest = {name: split for name, split in target.splits.items() if name != "dev"}
    return replace(target, splits=rest | {"train": (*target.train, *target.dev)})


def _labelled(cell: Cell) -> list[Sentence]:
    """All labelled sentences that the run learned from."""
    sentences = [s for source in _sources(cell) for s in source.train]
    target = _target(cell)
    if METHODS[cell.method].uses_target_labels and target.splits.get("train"):
        sentences += subset(target.train, shots=cell.shots, ratio=cell.ratio, seed=cell.seed)
    return sentences


def _sources(cell: Cell) -> list[Corpus]:
    sources = [corpus(name, cell.labels) for name in cell.sources]
    return apart(sources) if cell.disjoint else sources


def apart(corpora: Sequence[Corpus]) -> list[Corpus]:
    """The corpora without training sentences that are dev or test of another one, ignoring case and spaces."""
    kept = [{fingerprint(s) for n in ("dev", "test") for s in c.splits.get(n, ())} for c in corpora]
    out = []
    for i, one in enumerate(corpora):
        others = set[int]().union(*(texts for j, texts in enumerate(kept) if j != i))
        out.append(one.with_splits(train=[s for s in one.train if fingerprint(s) not in others]))
    return out


@lru_cache(maxsize=1)
def origin() -> dict[str, Any]:
    """Code and machine of a result."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} CPU cores"
    return {
        "version": nershift.__version__,
        "commit": os.environ.get("NERSHIFT_COMMIT") or _commit(),
        "code": code_digest(),
        "machine": f"{device}, torch {torch.__version__}, Python {platform.python_version()}",
    }


def _commit() -> str:
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parent,
            check=True,
        )
        return answer.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def code_digest() -> str:
    """A hash of the source of nershift and of the experiments, which says more than a version number."""
    h = hashlib.sha256()
    for root in (Path(nershift.__file__).parent, Path(__file__).parent):
        for path in sorted(root.rglob("*.py")):
            h.update(path.relative_to(root.parent).as_posix().encode() + b"\0" + path.read_bytes())
    return h.hexdigest()[:12]
