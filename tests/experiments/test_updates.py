"""How long runs trained, as tables tell it, and whether rows compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_results import finish, store

from experiments.cells import Cell
from experiments.report import as_html, gather
from experiments.scores import collect, verdict
from experiments.show import as_markdown, markdown, view
from experiments.store import ResultStore
from experiments.table import Table
from experiments.updates import Stage, stages_of, unequal_note, update_rows

TARGETS = ("re3d", "wikigold")


def _phase(steps: int, best: int | None) -> dict[str, Any]:
    return {"steps": steps, "best_step": best or 0, "dev_f1": None if best is None else 0.5}


def _run(folder: Path, cell: Cell, phases: dict[str, Any], score: float = 0.5, **metrics: Any) -> None:
    finish(folder, cell, {"test": {"f1": score}, "phases": phases, "seconds": 30.0, **metrics}, np.ones((4, 3)))


def _table(methods: tuple[str, ...], **more: Any) -> Table:
    return Table("t", "A table", [Cell("t", m, t, (), 0) for m in methods for t in TARGETS], seeds=(1, 2), **more)


def test_stages_of_a_run_and_of_its_start() -> None:
    start = {"phases": {"pretrain": _phase(200, 150)}}
    assert stages_of({"start": start, "phases": {"train": _phase(80, None)}}) == {
        "pretrain": Stage(200, 150),
        "train": Stage(80),
    }
    soup = {"train": _phase(10, 5), "train-2": _phase(10, 10), "average of train": {"of": ["train"], "dev_f1": 0.1}}
    assert stages_of({"phases": soup}) == {"train": Stage(20, 15)}
    assert stages_of({"phases": {}}) == {}


def test_a_pretraining_that_was_not_kept_is_told_from_its_settings() -> None:
    cell = Cell("t", "finetune", "re3d", ("wikigold",), 1, {"pretrain": {"epochs": 2, "batch_size": 64}}, joint=False)
    found = stages_of({"phases": {"train": _phase(80, 80)}, "data": {"start": "pretrained-x"}}, cell)
    assert found["pretrain"] == Stage(2 * 18, planned=True)  # 1,142 sentences
    assert found["train"].best_at_last


@pytest.fixture
def results(tmp_path: Path) -> ResultStore:
    for cell in _table(("long", "short")).cells((1, 2)):
        if cell.method == "long":
            start = {"phases": {"pretrain": _phase(100, 100)}}
            steps = 300 if cell.target == "re3d" else 400
            _run(tmp_path, cell, {"train": _phase(steps, 250)}, start=start, data={"start": f"one-{cell.seed}"})
        else:
            best = 80 if cell.seed == 1 else 20
            _run(tmp_path, cell, {"train": _phase(80, best)}, cpu_seconds=12.0)
    return store(tmp_path)


def test_each_row_tells_updates_best_and_who_was_best_at_the_last(results: ResultStore) -> None:
    table = _table(("long", "short"))
    rows = {row[0]: row[1:] for row in update_rows(table, collect(table, results))}
    assert rows["long"] == ("100", "100", "2 of 2", "350 (300 to 400)", "250", "0 of 4", "30")
    assert rows["short"] == ("", "", "", "80", "50", "2 of 4", "12 CPU")
    text = markdown(table, results)
    assert "| trained for | pre-training: updates | best at | best at the last | training: updates |" in text
    assert "| short |  |  |  | 80 | 50 | 2 of 4 | 12 CPU |" in text


def test_columns_without_anything_are_left_out(tmp_path: Path) -> None:
    table = _table(("short",))
    for cell in table.cells((1,)):
        _run(tmp_path, cell, {"train": _phase(80, None)})
    assert "| trained for | training: updates | seconds a run |\n|---|---:|---:|\n| short | 80 | 30 |" in markdown(
        table, store(tmp_path)
    )
    assert "trained for" not in markdown(_table(("other",)), store(tmp_path))


def test_rows_that_differ_in_updates_are_named_or_explained(results: ResultStore) -> None:
    def note(**more: Any) -> str:
        table = _table(("long", "short"), **more)
        return unequal_note(table, collect(table, results))

    assert note() == (
        "Rows differ in updates, from 80 (short) to 500 (long) on wikigold. So they are no fair comparison of methods."
    )
    assert note(unequal="On purpose.").endswith("on wikigold. On purpose.")
    assert note() in as_markdown(view(_table(("long", "short")), results))
    alone = _table(("short",))
    assert unequal_note(alone, collect(alone, results)) == ""


def test_the_report_has_the_updates_too(results: ResultStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.report.TABLES", {"t": _table(("long", "short"))})
    monkeypatch.setattr("experiments.report.get_table", lambda name: _table(("long", "short")))
    monkeypatch.setattr("experiments.report.TITLES", {"t": "T"})
    page = as_html(gather(results))
    assert "350 (300 to 400)" in page
    assert "Rows differ in updates" in page


@pytest.mark.parametrize(
    ("interval", "gain", "said"),
    [
        ((1.0, 3.0), 2.0, "reproduced"),
        ((0.9, 3.0), 2.0, "open"),
        ((-3.0, 0.99), 2.0, "refuted"),
        ((0.5, 0.9), 2.0, "refuted"),  # a gain, but not that one
        ((-3.0, 1.0), 2.0, "open"),
        ((None, None), 2.0, "open"),
    ],
)
def test_verdicts_are_about_half_of_a_papers_gain(
    interval: tuple[float | None, float | None], gain: float, said: str
) -> None:
    assert verdict(interval, gain) == said


def test_comparisons_judge_the_papers_gain(tmp_path: Path) -> None:
    printed = {("ours", t): 60.0 for t in TARGETS} | {("base", t): 50.0 for t in TARGETS}
    table = _table(("ours", "base", "far"), published=printed, average=True, ours="ours")
    scores = {"ours": 0.52, "base": 0.5, "far": 0.1}
    for cell in table.cells((1, 2)):
        _run(tmp_path, cell, {"train": _phase(9, 9)}, scores[cell.method] + cell.seed / 1000 * (cell.method == "ours"))
    told = {line.split(":")[0]: line for line in view(table, store(tmp_path)).comparisons}
    assert told["ours − base"].endswith("The paper's gain of +10.00: refuted.")
    assert "paper" not in told["ours − far"]
