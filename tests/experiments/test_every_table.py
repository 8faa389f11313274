"""Each experiment of the papers from pre-training to a number in its table, at toy size."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import reduced

from experiments import jobs
from experiments.cells import Cell
from experiments.papers import TABLES
from experiments.table import Table


def _every_row() -> list[tuple[Table, Cell]]:
    """One cell of each row; rows that differ only in numbers, or in their few sentences, run once."""
    seen: dict[str, tuple[Table, Cell]] = {}
    for table in TABLES.values():
        for cell in reduced.one_of_each_row(table):
            alike = replace(cell, config=_without_numbers(cell.config))
            if cell.shots or cell.ratio:
                alike = replace(alike, shots=10, ratio=None, target="re3d")
            seen.setdefault(alike.key, (table, cell))
    return list(seen.values())


def _without_numbers(config: Any) -> Any:
    """The same settings with 1 for every number but 0, which mostly means off."""
    if isinstance(config, Mapping):
        return {key: _without_numbers(value) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [_without_numbers(value) for value in config]
    return float(bool(config)) if isinstance(config, (int, float)) and not isinstance(config, bool) else config


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
