"""A cell is one run of an experiment; its result is a JSON file named after what decided it."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from experiments.spec_names import current_names, first_names
from nershift.config import merge
from nershift.data.spans import Sentence, Span
from nershift.errors import DataError
from nershift.storage import write_text

Labels = Literal["own", "homogeneous"]


@dataclass(frozen=True)
class Cell:
    """What one run does. Corpora are catalog names; ``config`` holds settings over the method's preset.

    ``row`` names the cell in a table where the method's name does not (an ablation, a value of λ).
    ``joint`` says that pre-training looks at the target too, so that it cannot be shared between targets.
    ``raw`` gives unlabelled text by domain: ``NAME``, ``NAME:SPLIT`` (labels taken off) or either with ``@COUNT``.
    ``train_on_dev`` trains on dev too, so that the last epoch is kept.
    ``disjoint`` takes sentences out of a source that stand in the dev or test split of another source.
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

    @classmethod
    def of(cls, spec: Mapping[str, Any], **more: Any) -> Cell:
        """The cell that a result's ``spec`` describes; ``more`` is what a spec does not say."""
        made = {**current_names(spec), "sources": tuple(spec["sources"])}
        if "raw" in spec:
            made["raw"] = tuple((domain, text) for domain, text in spec["raw"])
        return cls(**({"table": ""} | made | more))

    @property
    def name(self) -> str:
        return self.row or self.method

    def spec(self) -> dict[str, Any]:
        """What decides the result: everything but the table and row under which it is shown."""
        apart = ("table", "row", "joint", "keep_log", "keep_spans")
        shown = {k: v for k, v in asdict(self).items() if k not in apart}
        # Younger fields leave the keys of older results as they are.
        return {k: v for k, v in shown.items() if k not in ("raw", "train_on_dev", "disjoint") or v}

    @property
    def key(self) -> str:
        return key_of(self.spec())

    @property
    def pretraining(self) -> str | None:
        """Names the pre-training that this cell shares with others, if it can share one."""
        if self.joint:
            return None
        first = first_names({"method": self.pretrained_by, "config": self.config})
        stage = {k: v for k, v in first["config"].items() if k != "train"}
        if "decoder" in stage:  # how the target's head starts is no matter of the sources
            stage["decoder"] = {k: v for k, v in stage["decoder"].items() if k not in ("start", "same")}
        what = [first["method"], self.sources, self.seed, self.labels, stage]
        return _digest([*what, "disjoint"] if self.disjoint else what)

    @property
    def pretrained_by(self) -> str:
        """The method whose pre-training this one starts from."""
        shared = {"source_only": "finetune"}
        return shared.get(self.method, self.method.removesuffix("-zero").removesuffix("-few"))

    def path(self, folder: Path) -> Path:
        amount = f"-{self.shots}" if self.shots is not None else f"-{self.ratio}" if self.ratio is not None else ""
        method = first_names(self.spec())["method"]
        return folder / f"{self.target}-{method}{amount}-s{self.seed}-{self.key}.json"

    def with_config(self, over: Mapping[str, Any]) -> Cell:
        return Cell(**{**vars(self), "config": merge(self.config, over)})


def key_of(spec: Mapping[str, Any]) -> str:
    """The same for a spec under the names of any time."""
    return _digest(first_names(spec))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def write_result(
    folder: Path, cell: Cell, metrics: Mapping[str, Any], counts: np.ndarray, origin: Mapping[str, Any]
) -> None:
    """``counts [sentences, 3]`` (correct, predicted, gold) serve paired tests; ``origin`` names code and machine."""
    packed = _pack(counts.astype("<u2").tobytes())
    result = {"spec": cell.spec(), "metrics": dict(metrics), "counts": packed, "origin": dict(origin)}
    write_text(cell.path(folder), json.dumps(result, indent=1))


def pack_spans(sentences: Sequence[Sentence]) -> str:
    """Predicted spans without the sentences, which the corpus has."""
    rows = [[[s.start, s.end, s.label, round(s.score or 0.0, 4)] for s in sentence.spans] for sentence in sentences]
    return _pack(json.dumps(rows).encode())


def unpack_spans(packed: str, sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences with the spans that :func:`pack_spans` was given."""
    rows = json.loads(_unpack(packed))
    return [s.with_spans(Span(*span) for span in row) for s, row in zip(sentences, rows, strict=True)]


def read_result(folder: Path, cell: Cell) -> dict[str, Any] | None:
    """The result of a cell, or None if it was not run."""
    path = cell.path(folder)
    return open_result(path) if path.exists() else None


def open_result(path: Path) -> dict[str, Any]:
    """What a result file holds; a damaged one is refused."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(result.get("counts"), str):
            flat = np.frombuffer(_unpack(result["counts"]), dtype="<u2")
            result["counts"] = flat.reshape(-1, 3).astype(np.int64)
    except (ValueError, AttributeError, zlib.error) as error:
        raise DataError(
            f"not a result: {error}",
            place=str(path),
            fix="delete the file and run its cell again: python -m experiments run",
        ) from None
    return dict(result)


def _pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _unpack(packed: str) -> bytes:
    return zlib.decompress(base64.b64decode(packed))
