"""What a worker does: one pre-training, or one cell from corpora to result file."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from nershift import __version__, run
from nershift.bench.cells import Cell, Labels, write_result
from nershift.data.catalog import homogeneous_map, load, locate
from nershift.data.corpus import Corpus
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.eval.metrics import sentence_counts, token_scores

HOLD_OUT = 0.1  # share of train used as dev where a corpus has none; the same sentences in every run


@lru_cache(maxsize=64)
def corpus(name: str, labels: Labels) -> Corpus:
    found = load(name)
    if "dev" not in found.splits and "train" in found.splits:
        found = found.hold_out(HOLD_OUT)
    return found.mapped(homogeneous_map(name)) if labels == "homogeneous" else found


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


def run_pretraining(cell: Cell, work: Path) -> None:
    folder = work / f"pretrained-{cell.pretraining}"
    config = {k: v for k, v in cell.config.items() if k != "train"}
    run.pretrain(cell.pretrained_by, _sources(cell), out=folder, config=config, seed=cell.seed, quiet=True)


def run_cell(cell: Cell, work: Path, results: Path) -> None:
    folder = work / f"cell-{cell.key}"
    start = work / f"pretrained-{cell.pretraining}" if cell.pretraining else None
    done = run.transfer(
        cell.method,
        _target(cell),
        () if start else _sources(cell),
        out=folder,
        shots=cell.shots,
        ratio=cell.ratio,
        raw={name: raw_text(text) for name, text in cell.raw},
        start=start,
        config=cell.config,
        seed=cell.seed,
        quiet=True,
        report=False,
    )
    gold, predicted = done.predictions()
    metrics = {**done.metrics, "test_tokens": token_scores(gold, predicted).to_dict()}
    if start is not None:  # its name says which pre-training; where it lay is this machine's affair
        metrics["data"] = {**metrics["data"], "start": start.name}
    if cell.keep_log:
        metrics["log"] = [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]
    write_result(results, cell, metrics, sentence_counts(gold, predicted), origin())
    shutil.rmtree(folder)


def _target(cell: Cell) -> Corpus:
    found = corpus(cell.target, cell.labels)
    if not cell.train_on_dev:
        return found
    rest = {name: split for name, split in found.splits.items() if name != "dev"}
    return replace(found, splits=rest | {"train": (*found.train, *found.dev)})


def _sources(cell: Cell) -> list[Corpus]:
    return [corpus(name, cell.labels) for name in cell.sources]


@lru_cache(maxsize=1)
def origin() -> dict[str, Any]:
    """Which code on which machine."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} CPU cores"
    return {
        "version": __version__,
        "commit": os.environ.get("NERSHIFT_COMMIT") or _commit(),
        "code": code_digest(),
        "machine": f"{device}, torch {torch.__version__}, Python {platform.python_version()}",
    }


def _commit() -> str:
    try:
        told = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parent,
            check=True,
        )
        return told.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def code_digest() -> str:
    """A hash of the package's source, which says more than a version number."""
    root = Path(__file__).parents[1]
    h = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        h.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return h.hexdigest()[:12]
