"""What is shown of results: intervals, differences, the best other row, oracles, the rule of selection."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_results import finish, store

from experiments.cells import Cell
from experiments.scores import against_best, collect, paired_p
from experiments.show import as_markdown, markdown, view
from experiments.store import ResultStore
from experiments.table import Table, by_target
from nershift.errors import DataError
from nershift.evaluation.stats import aggregate, f1_of, randomisation_test

CELLS = [Cell("t", m, t, (), s) for m in ("ours", "near", "far") for t in ("re3d", "wikigold") for s in (1, 2, 3)]


def _counts(share: float, seed: int, n: int = 300) -> np.ndarray:
    right = (np.random.default_rng(seed).random(n) < share).astype(int)
    return np.stack([right, np.ones(n, int), np.ones(n, int)], 1)


def _table(**more: object) -> Table:
    return Table(
        "t", "A table", [c for c in CELLS if c.seed == 1], by_target,
        {("ours", "re3d"): 70.0, ("ours", "wikigold"): 60.0}, ours="ours", average=True, **more,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.fixture
def results(tmp_path: Path) -> ResultStore:
    shares = {"ours": 0.8, "near": 0.5, "far": 0.1}
    for i, cell in enumerate(CELLS):
        if (cell.method, cell.target) == ("far", "wikigold"):
            continue
        counts = _counts(shares[cell.method], i)
        metrics = {"test": {"f1": float(f1_of(counts.sum(0)))}, "selection": "best dev F1"}
        if cell.method == "ours" and cell.target == "re3d":
            metrics |= {"test_oracle": 0.9, "selection": "last"}
        finish(tmp_path, cell, metrics, counts)
    return store(tmp_path)


def _line(text: str, start: str, after: str = "") -> list[str]:
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith(f"| {after}")) if after else 0
    found = next(line for line in lines[first:] if line.startswith(f"| {start}"))
    return [cell.strip() for cell in found.strip("| ").split(" | ")]


def test_every_number_is_told_with_its_interval_and_difference(results: ResultStore) -> None:
    table = _table()
    text = markdown(table, results)
    summary = aggregate(collect(table, results)["ours", "re3d"].scores)
    assert _line(text, "ours")[1] == f"{summary.mean:.2f} ± {summary.sd:.2f}"
    assert _line(text, "&nbsp;&nbsp;*95% interval*")[1] == f"*{summary.low:.2f} to {summary.high:.2f}*"
    assert _line(text, "&nbsp;&nbsp;*paper (difference)*")[1] == f"*70.00 ({summary.mean - 70:+.2f})*"
    assert _line(text, "&nbsp;&nbsp;*paper")[3].startswith("*65.00 (")  # the mean of what it printed
    assert _line(text, "far") == ["far", _line(text, "far")[1], "not run", "not run"]
    assert "best seed" not in text


def test_the_best_other_row_is_tested_on_the_same_sentences(results: ResultStore) -> None:
    shown = collect(_table(), results)
    found = against_best(shown, "ours", "re3d", ("ours", "near", "far"))
    assert found is not None
    assert found.row == "near"
    rows = [np.concatenate(shown[m, "re3d"].counts) for m in ("near", "ours")]
    assert found.p == randomisation_test(*rows, permutations=2000)
    assert f"{found.difference:+.2f} (near, p < 0.001)" in markdown(_table(), results)
    assert against_best(shown, "far", "wikigold", ("ours", "far")) is None


def test_no_test_where_the_counts_are_of_something_else(results: ResultStore) -> None:
    by_type = _table(value=lambda metrics, part: 0.5)
    shown = collect(by_type, results)
    assert paired_p(shown["ours", "re3d"], shown["near", "re3d"]) is None
    assert "+0.00 (near)" in markdown(by_type, results)


def test_oracles_best_seeds_and_rules_are_labelled(results: ResultStore) -> None:
    made = view(_table(best=True), results)
    text = as_markdown(made)
    assert _line(text, "&nbsp;&nbsp;*epoch chosen on test*")[1:2] == ["*90.00*"]
    best = max(made.shown["ours", "re3d"].scores)
    assert _line(text, "&nbsp;&nbsp;*best seed*")[1] == f"*{best:.2f}*"
    assert "Selection of weights: best dev F1 (12 runs), the last epoch (3 runs)." in text
    assert "for comparison with papers" in text
    assert made.done == 15


def test_runs_that_did_not_keep_what_is_shown_are_told_apart_from_none(results: ResultStore) -> None:
    text = markdown(_table(value=lambda metrics, part: metrics["test_oracle"]), results)
    assert _line(text, "near")[1:3] == ["not kept", "not kept"]
    assert _line(text, "far")[2] == "not run"
    assert "did not keep it" in text


def test_an_empty_folder_shows_nothing_but_what_was_not_run(tmp_path: Path) -> None:
    text = markdown(_table(), store(tmp_path))
    assert text.count("not run") == 9
    assert "Not run." in text
    assert "± " not in text


def test_a_folder_that_is_not_there_is_no_empty_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nosuch: there is no such folder"):
        ResultStore(tmp_path / "nosuch")


def test_with_one_seed_the_interval_is_over_columns(tmp_path: Path) -> None:
    """Five corpora, differences of 1 to 5 points: mean 3, sd √2.5, t(4) = 2.776."""
    corpora = ("re3d", "wikigold", "mit_movie", "wnut2016", "wnut2017")
    cells = [Cell("t", m, t, (), 1) for m in ("ours", "other") for t in corpora]
    for i, cell in enumerate(cells):
        hits = np.zeros((100, 3), int)
        hits[:, 1:] = 1
        hits[: 50 + (i + 1 if cell.method == "ours" else 0), 0] = 1
        finish(tmp_path, cell, {"test": {"f1": float(f1_of(hits.sum(0)))}}, hits)
    text = markdown(Table("t", "A table", cells, by_target, ours="ours", average=True), store(tmp_path))
    half = 2.776 * 2.5**0.5 / 5**0.5
    assert f"ours − other: +3.00 (one seed; 95% interval over columns {3 - half:+.2f} to {3 + half:+.2f})" in text
