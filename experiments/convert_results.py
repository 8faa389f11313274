"""From a folder with a JSON file per run, as results were kept before, to the papers' result files.

    python -m experiments.convert_results OLD_FOLDER [--out experiments] [--check]

``--check`` writes nothing: it compares every field of every old file with what the new files hold.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from experiments.cells import Cell, key_of
from experiments.papers import TABLES, TITLES
from experiments.store import ROOT, Result, ResultStore, check, parse_result, write_paper
from nershift.errors import DataError

_SEEDS = range(1, 11)
# What moves from the old metrics into the file of analyses, with its name there.
_MOVED = {"mistakes": "errors", "spans": "spans"}


def old_results(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(folder.glob("*.json")):
        try:
            old = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"not a result: {error}", place=str(path)) from None
        yield path, old


def split(old: Mapping[str, Any], place: str) -> tuple[Result, dict[str, Any]]:
    """The two parts of an old result: scores and counts, and its analysis."""
    check(old, {"spec": (dict,), "metrics": (dict,), "counts": (str,), "origin": (dict,)}, place)
    metrics = dict(old["metrics"])
    analysis = {new: metrics.pop(name) for name, new in _MOVED.items() if name in metrics}
    return parse_result({**old, "metrics": metrics}, place), analysis


def joined(result: Result, analysis: Mapping[str, Any]) -> dict[str, Any]:
    """The old result again."""
    parts = {name: analysis[new] for name, new in _MOVED.items() if new in analysis}
    return result.to_dict() | {"metrics": {**result.metrics, **parts}}


def convert(old: Path, out: Path) -> dict[str, int]:
    """Write the files of every paper below ``out``; gives the number of runs of each."""
    papers = _papers()
    results: dict[str, list[Result]] = {}
    analyses: dict[str, dict[str, Any]] = {}
    for path, content in old_results(old):
        result, analysis = split(content, str(path))
        if result.key not in papers:
            raise DataError("no table shows this run", place=str(path))
        paper = papers[result.key]
        results.setdefault(paper, []).append(result)
        if analysis:
            analyses.setdefault(paper, {})[result.key] = analysis
    for paper, runs in results.items():
        write_paper(out / paper, runs, analyses.get(paper, {}))
    return {paper: len(runs) for paper, runs in results.items()}


@cache
def _papers() -> dict[str, str]:
    """The paper of every key. A run that both the baselines and a paper show is the paper's."""
    ordered = sorted(TABLES.values(), key=lambda table: list(TITLES).index(table.paper))
    return {cell.key: table.paper for table in ordered for cell in table.cells(_SEEDS)}


def differences(old: Path, store: ResultStore) -> Iterator[str]:
    """What the new files lack of the old ones, or have otherwise."""
    for path, content in old_results(old):
        cell = Cell.of(content["spec"])
        result = store.get(cell)
        if result is None:
            yield f"{path.name}: not there"
        elif f"{result.name}.json" != path.name or path.stem.rpartition("-")[2] != key_of(content["spec"]):
            yield f"{path.name}: its name is now {result.name}"
        elif json.dumps(joined(result, store.analysis(cell)), sort_keys=True) != json.dumps(content, sort_keys=True):
            yield f"{path.name}: another content"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        lost = list(differences(options.old, ResultStore(options.out)))
        raise SystemExit("\n".join(lost) or None)
    for paper, runs in convert(options.old, options.out).items():
        print(paper, runs)  # noqa: T201


if __name__ == "__main__":
    main()
