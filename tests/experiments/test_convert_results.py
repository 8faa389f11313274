"""From a file per run to a file per paper and back, with nothing lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_results import ORIGIN

from experiments.cells import Cell, run_name
from experiments.convert_results import convert, differences, joined, split
from experiments.papers import get_table
from experiments.spec_names import first_names
from experiments.store import ResultStore, pack
from nershift.errors import DataError


def _old(cell: Cell, **more: Any) -> dict[str, Any]:
    """As results were written, under the names of their time."""
    metrics = {"test": {"f1": 1 / 3, "by_type": {"b": {"f1": 0.1}, "a": {"f1": 1e-17}}}, "seconds": 39.0, **more}
    counts = pack(bytes(range(12)))
    return {"spec": first_names(cell.spec()), "metrics": metrics, "counts": counts, "origin": {**ORIGIN, "at_once": 4}}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    spans = {"dev": "packed", "test": "pæcked"}
    extras: list[dict[str, Any]] = [{}, {"mistakes": {"examples": [], "seen": None}}, {"mistakes": {}, "spans": spans}]
    cells = [
        cell
        for name in ("metaner-table3", "laner-steps", "datnet-heads", "baselines-in-domain", "crosslm-table4")
        for cell in get_table(name).cells((1,))[:12]
    ]
    folder = tmp_path / "old"
    folder.mkdir()
    for i, cell in enumerate({c.key: c for c in cells}.values()):
        content = _old(cell, **extras[i % 3])
        (folder / f"{run_name(content['spec'])}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    return folder


def test_every_field_of_every_file_survives(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    runs = convert(old, new)
    assert set(runs) == {"metaner", "laner", "datnet", "baselines", "crosslm"}
    assert sum(runs.values()) == len(list(old.iterdir())) > 40
    store = ResultStore(new, tmp_path)
    assert list(differences(old, store)) == []
    for path in old.iterdir():
        content = json.loads(path.read_text(encoding="utf-8"))
        cell = Cell.of(content["spec"])
        result = store.get(cell)
        assert result is not None
        assert joined(result, store.analysis(cell)) == content
        assert "mistakes" not in result.metrics
    first = {path: path.read_bytes() for path in new.rglob("*.gz")}
    convert(old, new)
    assert first == {path: path.read_bytes() for path in new.rglob("*.gz")}


def test_whatever_differs_is_told(old: Path, tmp_path: Path) -> None:
    convert(old, tmp_path / "new")
    store = ResultStore(tmp_path / "new", tmp_path)
    one, other, *_ = sorted(old.iterdir())
    one.write_text(one.read_text(encoding="utf-8").replace("39.0", "39.5"), encoding="utf-8")
    other.rename(other.with_name("elsewhere.json"))
    fresh = _old(Cell("t", "metaner", "re3d", (), 99))
    (old / "more.json").write_text(json.dumps(fresh))
    assert sorted(line.partition(": ")[2].split()[0] for line in differences(old, store)) == ["another", "its", "not"]


def test_a_run_that_no_table_shows_and_a_damaged_file_are_named(old: Path, tmp_path: Path) -> None:
    stray = old / "stray.json"
    stray.write_text(json.dumps(_old(Cell("t", "metaner", "re3d", (), 99))))
    with pytest.raises(DataError, match="no table shows") as told:
        convert(old, tmp_path / "new")
    assert told.value.place == str(stray)
    stray.write_text("{")
    with pytest.raises(DataError, match="not a result"):
        convert(old, tmp_path / "new")
    with pytest.raises(DataError, match="no field 'counts'"):
        split({"spec": {}, "metrics": {}, "origin": {}}, "here")
