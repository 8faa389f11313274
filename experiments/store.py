"""Finished runs: per paper a file of scores and counts, and a second one of error analyses and predicted spans.

Both are gzipped JSON lines. The first line names the format and its version, each further line is a run. A run under
way shares no file with others: it writes a small JSON file into the folder ``finished`` of its grid. When the grid
ends, one process merges these into the papers' files, which are replaced in one go.
"""

from __future__ import annotations

import base64
import fcntl
import gzip
import io
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cells import Cell, key_of, run_name
from nershift.errors import DataError
from nershift.storage import replace_file, write_text

ROOT = Path(__file__).parent
WORK = Path("runs/experiments")  # runs under way, and those that are not merged yet
RESULTS, ANALYSES = "results.jsonl.gz", "analysis.jsonl.gz"
FINISHED = "finished"
VERSION = 1
_FORMATS = {RESULTS: "nershift results", ANALYSES: "nershift analyses"}

# What a line must have, and what it may have, with the types of the values.
_Fields = Mapping[str, tuple[type, ...]]
_NONE = type(None)
_JSON: dict[type, str] = {
    dict: "an object", list: "a list", str: "text", int: "a whole number", float: "a number", bool: "true or false",
}  # fmt: skip
_LINE: _Fields = {"spec": (dict,), "metrics": (dict,), "counts": (str,), "origin": (dict,)}
_SPEC: _Fields = {
    "method": (str,),
    "target": (str,),
    "sources": (list,),
    "seed": (int,),
    "config": (dict,),
    "shots": (int, _NONE),
    "ratio": (int, float, _NONE),
    "labels": (str,),
}
_SPEC_EXTRAS: _Fields = {"raw": (list,), "train_on_dev": (bool,), "disjoint": (bool,), "teachers": (list,)}
_ORIGIN: _Fields = dict.fromkeys(("version", "commit", "code", "machine"), (str,))
_ANALYSIS: _Fields = dict.fromkeys(("errors", "spans"), (dict,))


@dataclass(frozen=True)
class Result:
    """A finished run.

    Args:
        spec: what decided it, under the names of its time.
        metrics: scores and everything else that the run reported.
        packed: correct, predicted and gold entities of every test sentence; see :attr:`counts`.
        origin: code and machine.
    """

    spec: Mapping[str, Any]
    metrics: Mapping[str, Any]
    packed: str
    origin: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        return key_of(self.spec)

    @cached_property
    def counts(self) -> np.ndarray:
        """[sentences, 3]: correct, predicted, gold."""
        return np.frombuffer(unpack(self.packed), dtype="<u2").reshape(-1, 3).astype(np.int64)

    @property
    def name(self) -> str:
        return run_name(self.spec)

    def to_dict(self) -> dict[str, Any]:
        return {"spec": self.spec, "metrics": self.metrics, "counts": self.packed, "origin": self.origin}


@dataclass(frozen=True)
class _Finished:
    """A run that is not merged yet."""

    paper: str
    result: Result
    analysis: Mapping[str, Any]
    path: Path


@dataclass
class _Paper:
    """The runs of one file, by key."""

    results: dict[str, Result] = field(default_factory=dict)
    analyses: dict[str, Mapping[str, Any]] = field(default_factory=dict)


class ResultStore:
    """The results below ``folder``, a folder for each paper, and those in ``work`` that are not merged yet."""

    def __init__(self, folder: Path = ROOT, work: Path = WORK) -> None:
        if not folder.is_dir():
            raise DataError(
                "there is no such folder",
                place=str(folder),
                expected=f"a folder with PAPER/{RESULTS}",
                fix="check the path",
            )
        self.folder, self.work = folder, work
        self._papers: dict[str, _Paper] = {}
        self._analyses_read: set[str] = set()
        self._read()

    def _read(self) -> None:
        self._papers, self._analyses_read = {}, set()
        seen: dict[str, str] = {}
        for path in sorted(self.folder.glob(f"*/{RESULTS}")):
            paper = self._papers.setdefault(path.parent.name, _Paper())
            for place, row in read_lines(path):
                result = parse_result(row, place)
                if result.key in seen:
                    raise DataError(f"the run of {seen[result.key]} stands here again", place=place)
                seen[result.key] = place
                paper.results[result.key] = result
        self._unmerged = {run.result.key: run for run in self._finished()}

    def _finished(self) -> Iterator[_Finished]:
        for path in sorted((self.work / FINISHED).glob("*.json")):
            try:
                row = json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise _damaged(str(path), error) from None
            check(row, {"paper": (str,), **_LINE}, str(path), _ANALYSIS)
            analysis = {k: row.pop(k) for k in _ANALYSIS if k in row}
            yield _Finished(row.pop("paper"), parse_result(row, str(path)), analysis, path)

    def __iter__(self) -> Iterator[Result]:
        merged = (result for paper in self._papers.values() for result in paper.results.values())
        yield from (result for result in merged if result.key not in self._unmerged)
        yield from (run.result for run in self._unmerged.values())

    def __contains__(self, cell: Cell) -> bool:
        return self.get(cell) is not None

    def get(self, cell: Cell) -> Result | None:
        """The result of a cell; None: it was not run."""
        key = cell.key
        if key in self._unmerged:
            return self._unmerged[key].result
        return next((p.results[key] for p in self._papers.values() if key in p.results), None)

    def analysis(self, run: Cell | Result) -> Mapping[str, Any]:
        """The ``errors`` and ``spans`` that a run kept, if any."""
        key = run.key
        if key in self._unmerged:
            return self._unmerged[key].analysis
        for name, paper in self._papers.items():
            if key in paper.results:
                return self._analyses(name).get(key, {})
        return {}

    def _analyses(self, name: str) -> dict[str, Mapping[str, Any]]:
        """Read when first asked for: tables do without them."""
        paper, path = self._papers[name], self.folder / name / ANALYSES
        if name not in self._analyses_read and path.exists():
            for place, row in read_lines(path):
                check(row, {"key": (str,)}, place, _ANALYSIS)
                key = row.pop("key")
                if key not in paper.results:
                    raise DataError(f"no run of {path.parent / RESULTS} has the key '{key}'", place=f"{place}, key")
                paper.analyses[key] = row
        self._analyses_read.add(name)
        return paper.analyses

    def merge(self) -> int:
        """Move finished runs into the papers' files; gives their number. Safe to repeat after any interruption."""
        with _locked(self.folder):
            self._read()  # another process may have merged meanwhile
            runs, self._unmerged = self._unmerged, {}
            changed = set()
            for key, run in runs.items():
                name = next((n for n, p in self._papers.items() if key in p.results), run.paper)
                paper = self._papers.setdefault(name, _Paper())
                analyses = self._analyses(name)
                paper.results[key] = run.result
                analyses.pop(key, None)
                if run.analysis:
                    analyses[key] = run.analysis
                changed.add(name)
            for name in changed:
                write_paper(self.folder / name, self._papers[name].results.values(), self._papers[name].analyses)
            for run in runs.values():
                run.path.unlink()
        return len(runs)


def write_finished(
    work: Path,
    cell: Cell,
    metrics: Mapping[str, Any],
    counts: np.ndarray,
    origin: Mapping[str, Any],
    **analysis: Mapping[str, Any],
) -> None:
    """Keep a run until the store merges it.

    Args:
        counts: [sentences, 3] of correct, predicted and gold entities, for paired tests.
        analysis: ``errors``, ``spans``.
    """
    row = {
        "paper": cell.paper,
        "spec": cell.spec(),
        "metrics": dict(metrics),
        "counts": pack(counts.astype("<u2").tobytes()),
        "origin": dict(origin),
        **analysis,
    }
    write_text(work / FINISHED / f"{run_name(cell.spec())}.json", json.dumps(row))


def write_paper(folder: Path, results: Iterable[Result], analyses: Mapping[str, Mapping[str, Any]]) -> None:
    """Write both files of a paper, results first: analyses of unknown runs are refused. Same runs, same bytes."""
    ordered = sorted(results, key=lambda result: result.name)
    extra = [{"key": result.key, **analyses[result.key]} for result in ordered if result.key in analyses]
    write_lines(folder / RESULTS, [result.to_dict() for result in ordered])
    if extra or (folder / ANALYSES).exists():
        write_lines(folder / ANALYSES, extra)


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    header = {"format": _FORMATS[path.name], "version": VERSION, "paper": path.parent.name}
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, compresslevel=9, mtime=0) as file:
        for row in (header, *rows):
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    replace_file(path, lambda temporary: temporary.write_bytes(buffer.getvalue()))


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place (``FILE:LINE``) and content of every line behind the header."""
    number = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                row = json.loads(line)
                place = f"{path}:{number}"
                if not isinstance(row, dict):
                    raise ValueError(f"found {line[:40]!r}, expected an object")
                if number == 1:
                    _check_header(row, place, _FORMATS[path.name])
                else:
                    yield place, row
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(f"{path}:{max(1, number)}", error) from None
    if not number:
        raise _damaged(f"{path}:1", ValueError("the file is empty"))


def _check_header(row: Mapping[str, Any], place: str, name: str) -> None:
    check(row, {"format": (str,), "version": (int,), "paper": (str,)}, place)
    if (row["format"], row["version"]) != (name, VERSION):
        raise DataError(
            f"found '{row['format']}', version {row['version']}",
            place=place,
            expected=f"'{name}', version {VERSION}",
            fix="use the experiments of the commit that wrote the file",
        )


def parse_result(row: Mapping[str, Any], place: str) -> Result:
    check(row, _LINE, place)
    check(row["spec"], _SPEC, f"{place}, spec", _SPEC_EXTRAS)
    check(row["metrics"], {"test": (dict,)}, f"{place}, metrics", others=True)
    check(row["origin"], _ORIGIN, f"{place}, origin", {"at_once": (int,)})
    try:
        if len(unpack(row["counts"])) % 6:
            raise ValueError("not three numbers a sentence")
    except (ValueError, zlib.error) as error:
        raise _damaged(f"{place}, counts", error) from None
    return Result(row["spec"], row["metrics"], row["counts"], row["origin"])


def check(
    row: Mapping[str, Any], needed: _Fields, place: str, optional: _Fields | None = None, *, others: bool = False
) -> None:
    """Refuse a missing field, a value of a wrong type and, unless ``others`` are fine, a field that is not known."""
    known = {**needed, **(optional or {})}
    if missing := [name for name in needed if name not in row]:
        raise DataError(f"there is no field '{missing[0]}'", place=place, expected=", ".join(known))
    for name, value in row.items():
        if name not in known and not others:
            raise DataError(f"unknown field '{name}'", place=place, expected=", ".join(known))
        kinds = known.get(name, (type(value),))
        if type(value) not in kinds:  # by type itself: True is no number
            expected = " or ".join("null" if kind is _NONE else _JSON[kind] for kind in kinds)
            raise DataError(f"found {json.dumps(value)[:60]}", place=f"{place}, {name}", expected=expected)


def _damaged(place: str, error: Exception) -> DataError:
    return DataError(f"not a result: {error}", place=place, fix="restore the file from git, or delete it and run again")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def unpack(packed: str) -> bytes:
    return zlib.decompress(base64.b64decode(packed))
