"""The tables of the simulation: a strategy is never said to save what random choice did not need either."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "next_table.py"


@pytest.fixture(scope="module")
def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("next_table", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def result(random: list[float], chosen: list[float], seeds: int = 2) -> dict[str, Any]:
    def rows(f1s: list[float], seed: int) -> list[dict[str, float]]:
        return [
            {"sentences": 50 * (i + 1), "tokens": 500 * (i + 1), "f1": f1 + 0.001 * seed * (i > 0)}
            for i, f1 in enumerate(f1s)
        ]

    chains = [
        {"corpus": "toy", "seed": s, "rounds": {"random": rows(random, s), "next": rows(chosen, s)}}
        for s in range(seeds)
    ]
    settings = {"start": 50, "batch": 50, "steps": 10}
    return {"machine": {"device": "cpu"}, "seconds": 1.0, "settings": settings, "chains": chains}


def test_where_a_goal_is_passed_for_good(table: ModuleType) -> None:
    xs = [50, 100, 150, 200]
    assert table.needed(xs, [0.1, 0.3, 0.5, 0.6], 0.4) == 125
    assert table.needed(xs, [0.1, 0.5, 0.3, 0.6], 0.45) == 175  # a spike does not count
    assert table.needed(xs, [0.5, 0.5, 0.5, 0.5], 0.5) == 50
    assert table.needed(xs, [0.1, 0.9, 0.9, 0.3], 0.4) is None


def test_a_gain_and_a_loss(table: ModuleType) -> None:
    told = table.as_markdown(result([0.2, 0.3, 0.4], [0.2, 0.4, 0.5]))
    assert "fewer sentences on toy (0.67 of them)." in told
    assert "| toy | 40.05 | next | 100 | 0.67 | 1000 | 0.67 | +10.00" in told
    told = table.as_markdown(result([0.2, 0.3, 0.4], [0.2, 0.25, 0.3]))
    assert "on no corpus, and does not on toy." in told
    assert "more than 150 | over 1.00" in told


def test_nothing_is_gained_where_random_stands_still(table: ModuleType) -> None:
    told = table.as_markdown(result([0.3, 0.3, 0.3], [0.3, 0.3, 0.3], seeds=1))
    assert "on no corpus, and does not on toy." in told
    assert "more than the seeds' noise on none of them" in told
    assert "| 50 | 1.00 | 500 | 1.00 | +0.00 |" in told


def test_put_between_the_marks(table: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.MARKS[0]}\nold\n{table.MARKS[1]}\nafter\n")
    for _ in range(2):
        table.put_into(page, "new")
    assert page.read_text() == f"before\n{table.MARKS[0]}\nnew\n{table.MARKS[1]}\nafter\n"
