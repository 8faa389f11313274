"""Each experiment of the papers from pre-training to a number in its table, at toy size."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import reduced

from experiments import jobs
from experiments.cells import Cell
from experiments.papers import TABLES
from experiments.table import Table


def _every_row() -> list[tuple[Table, Cell]]:
    """One cell of each row; what several tables share, or differs only in its few sentences, runs once."""
    seen: dict[str, tuple[Table, Cell]] = {}
    for table in TABLES.values():
        for cell in reduced.one_of_each_row(table):
            alike = replace(cell, shots=10, target="re3d") if cell.shots else cell
            seen.setdefault(alike.key, (table, cell))
    return list(seen.values())


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    reduced.make_inputs(folder)
    return folder


@pytest.mark.parametrize(("table", "cell"), [pytest.param(t, c, id=f"{t.name}-{c.name}") for t, c in _every_row()])
def test_runs_end_to_end(
    table: Table, cell: Cell, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "corpus", reduced.corpus)
    monkeypatch.setattr(jobs, "raw_text", reduced.raw_text)
    monkeypatch.setenv("NERSHIFT_VECTORS", str(inputs))
    monkeypatch.setenv("NERSHIFT_ENCODERS", str(inputs))
    result = reduced.run_reduced(cell, tmp_path)
    assert result.spec["method"] == cell.method
    if "f1" in result.metrics["test"] and table.parts == ("",):
        assert math.isfinite(table.value(result.metrics, ""))
