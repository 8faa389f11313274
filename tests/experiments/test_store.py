"""The papers' result files: what goes in comes out, damage is named by file and line, and merging loses nothing."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_results import ORIGIN, finish

from experiments import store as store_module
from experiments.cells import Cell
from experiments.papers import TABLES, TITLES
from experiments.store import ANALYSES, RESULTS, ROOT, ResultStore, write_lines
from nershift.errors import DataError

COUNTS = np.array([[1, 2, 3], [0, 300, 4]])
CELLS = [Cell("toy-table1", "metaner", "re3d", ("wikigold",), seed, {"head": {"kind": "crf"}}) for seed in (1, 2, 3)]
ERRORS = {"kinds": {"wrong type": 2}}


def _finish(work: Path, cell: Cell, f1: float = 0.5, **analysis: Any) -> None:
    finish(work, cell, {"test": {"f1": f1}}, COUNTS, **analysis)


@pytest.fixture
def merged(tmp_path: Path) -> Path:
    for cell in CELLS:
        _finish(tmp_path / "work", cell, cell.seed / 10, errors=ERRORS)
    assert ResultStore(tmp_path, tmp_path / "work").merge() == 3
    return tmp_path


def _store(folder: Path) -> ResultStore:
    return ResultStore(folder, folder / "work")


def _rewrite(path: Path, change: Callable[[list[str]], None]) -> None:
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    change(lines)
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))


def test_a_run_is_found_before_and_after_it_is_merged(tmp_path: Path) -> None:
    store, cell = _store(tmp_path), CELLS[0]
    assert store.get(cell) is None
    assert store.analysis(cell) == {}
    _finish(tmp_path / "work", cell, errors=ERRORS)
    for store in (_store(tmp_path), _store(tmp_path)):
        found = store.get(cell)
        assert found is not None
        np.testing.assert_array_equal(found.counts, COUNTS)
        assert found.spec == json.loads(json.dumps(cell.spec()))
        assert found.metrics == {"test": {"f1": 0.5}}
        assert found.origin == ORIGIN
        assert store.analysis(cell) == {"errors": ERRORS}
        assert [result.key for result in store] == [cell.key]
        store.merge()
        assert cell in store
    assert {p.name for p in (tmp_path / "toy").iterdir()} == {RESULTS, ANALYSES}
    assert not list((tmp_path / "work" / "finished").iterdir())


def test_the_same_runs_give_the_same_bytes_whatever_their_order(merged: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for cell in reversed(CELLS):
        _finish(other / "work", cell, cell.seed / 10, errors=ERRORS)
        _store(other).merge()
    for name in (RESULTS, ANALYSES):
        assert (other / "toy" / name).read_bytes() == (merged / "toy" / name).read_bytes()


def test_a_later_run_replaces_the_earlier_one_where_that_stands(merged: Path) -> None:
    again = Cell(**{**vars(CELLS[1]), "table": "other-table1"})
    _finish(merged / "work", again, 0.9)
    store = _store(merged)
    assert store.merge() == 1
    assert not (merged / "other").exists()
    for read in (store, _store(merged)):
        found = read.get(CELLS[1])
        assert found is not None
        assert found.metrics["test"]["f1"] == 0.9
        assert read.analysis(CELLS[1]) == {}  # of the earlier run
        assert read.analysis(CELLS[0]) == {"errors": ERRORS}
        assert len(list(read)) == 3


def test_an_interrupted_merge_is_done_again(merged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even between the two files of a paper."""

    def interrupted(path: Path, rows: Any) -> None:
        if path.name == ANALYSES:
            raise KeyboardInterrupt
        write_lines(path, rows)

    more = Cell(**{**vars(CELLS[0]), "seed": 9})
    for cell in (CELLS[0], more):
        _finish(merged / "work", cell, 0.9, errors={})
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "write_lines", interrupted)
        with pytest.raises(KeyboardInterrupt):
            _store(merged).merge()
    assert _store(merged).merge() == 2
    assert _store(merged).merge() == 0
    for cell in (CELLS[0], more):
        found = _store(merged).get(cell)
        assert found is not None
        assert found.metrics["test"]["f1"] == 0.9
        assert _store(merged).analysis(cell) == {"errors": {}}
    assert _store(merged).analysis(CELLS[1]) == {"errors": ERRORS}


def test_merges_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    cells = [Cell("toy-table1", "metaner", "re3d", (), seed) for seed in range(16)]
    for cell in cells:
        _finish(tmp_path / f"work{cell.seed % 4}", cell)
    stores = [ResultStore(tmp_path, tmp_path / f"work{i}") for i in range(4)]
    threads = [threading.Thread(target=store.merge) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {result.key for result in _store(tmp_path)} == {cell.key for cell in cells}


def _set(number: int, *path: str, to: Any) -> Callable[[list[str]], None]:
    def change(lines: list[str]) -> None:
        row = block = json.loads(lines[number])
        for name in path[:-1]:
            block = block[name]
        block[path[-1]] = to
        if to is ...:
            del block[path[-1]]
        lines[number] = json.dumps(row)

    return change


def _cut(lines: list[str]) -> None:
    lines[2] = lines[2][:-9]


def _twice(lines: list[str]) -> None:
    lines.append(lines[1])


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        (_cut, ":3", "not a result"),
        (_set(0, "version", to=2), ":1", "version 2"),
        (_set(0, "format", to="other"), ":1", "found 'other'"),
        (_set(0, "paper", to=...), ":1", "no field 'paper'"),
        (_set(3, "counts", to=...), ":4", "no field 'counts'"),
        (_set(3, "counts", to="AAAA"), ":4, counts", "not a result"),
        (_set(1, "spec", "seed", to=...), ":2, spec", "no field 'seed'"),
        (_set(1, "spec", "seed", to="1"), ":2, spec, seed", "whole number"),
        (_set(1, "spec", "seed", to=True), ":2, spec, seed", "whole number"),
        (_set(1, "spec", "shots", to=1.5), ":2, spec, shots", "whole number or null"),
        (_set(1, "spec", "colour", to="red"), ":2, spec", "unknown field 'colour'"),
        (_set(2, "metrics", "test", to=[]), ":3, metrics, test", "an object"),
        (_set(2, "origin", "code", to=None), ":3, origin, code", "text"),
        (_twice, ":5", "stands here again"),
    ],
)
def test_damage_is_named_by_file_and_line(
    merged: Path, change: Callable[[list[str]], None], place: str, message: str
) -> None:
    path = merged / "toy" / RESULTS
    _rewrite(path, change)
    with pytest.raises(DataError, match=message) as told:
        _store(merged)
    assert told.value.place == f"{path}{place}"


@pytest.mark.parametrize("content", [b"", b"plain text", "cut"])
def test_a_file_that_is_not_whole_is_refused(merged: Path, content: Any) -> None:
    path = merged / "toy" / RESULTS
    path.write_bytes(path.read_bytes()[:-40] if content == "cut" else content)
    with pytest.raises(DataError, match="not a result") as told:
        _store(merged)
    assert str(told.value.place).startswith(f"{path}:")


def test_analyses_are_checked_when_they_are_read(merged: Path) -> None:
    path = merged / "toy" / ANALYSES
    _rewrite(path, _set(2, "errors", to="none"))
    store = _store(merged)  # tables do without them
    with pytest.raises(DataError, match="an object") as told:
        store.analysis(CELLS[0])
    assert told.value.place == f"{path}:3, errors"
    _rewrite(path, _set(2, "errors", to={}))
    _rewrite(path, _set(1, "key", to="0"))
    with pytest.raises(DataError, match="no run") as told:
        _store(merged).analysis(CELLS[0])
    assert str(told.value.place).startswith(f"{path}:2")


def test_a_damaged_file_of_a_finished_run_is_named(merged: Path) -> None:
    _finish(merged / "work", CELLS[0])
    (path,) = (merged / "work" / "finished").iterdir()
    path.write_text(path.read_text()[:-9])
    with pytest.raises(DataError, match="not a result") as told:
        _store(merged)
    assert told.value.place == str(path)


def test_tables_are_named_after_the_folder_of_their_paper() -> None:
    assert {table.paper for table in TABLES.values()} == set(TITLES)
    for table in TABLES.values():
        assert all(cell.paper == table.paper for cell in table.cells((1,)))
    assert {path.parent.name for path in ROOT.glob(f"*/{RESULTS}")} <= set(TITLES)


def test_committed_files_are_small_and_whole(committed: ResultStore) -> None:
    sizes = {name: sum(path.stat().st_size for path in ROOT.glob(f"*/{name}")) for name in (RESULTS, ANALYSES)}
    assert sizes[RESULTS] < 10e6
    assert sizes[ANALYSES] < 20e6
    assert sum(bool(committed.analysis(result)) for result in committed) > 1700
