"""The report value and its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nershift.data.spans import Sentence, Span
from nershift.errors import CheckpointError
from nershift.evaluation.run_warnings import RunWarning
from nershift.evaluation.stats import Estimate, aggregate
from nershift.reports.content import example_lines, flat, headline, tables
from nershift.reports.model import ComparisonRow, Curve, RunReport

GOLD = [
    Sentence.of(["Ada", "Lovelace", "left", "London"], [(0, 2, "PER"), (3, 4, "LOC")], place="test.conll:1"),
    Sentence.of(["Acme", "hired", "Bob"], [(0, 1, "ORG"), (2, 3, "PER")], place="test.conll:6"),
]
PRED = [[Span(0, 1, "PER", 0.5), Span(3, 4, "LOC", 0.9)], [Span(0, 1, "PER"), Span(2, 3, "PER")]]


def full_report() -> RunReport:
    return RunReport.of(
        "toy",
        GOLD,
        PRED,
        train=GOLD[:1],
        method="finetune",
        verdict="fine",
        notes=("a note",),
        warnings=(RunWarning("few_updates", "warning", "Only 60 updates.", "`--set train.updates=1000`"),),
        comparisons=(
            ComparisonRow.of("finetune", aggregate([0.5, 0.6, 0.7]), "baseline"),
            ComparisonRow.of("metaner", Estimate(0.7, 0.6, 0.8)),
            ComparisonRow.of("one run", aggregate([0.5])),
        ),
        curves=(
            Curve("finetune", (10, 100), (0.4, 0.6), (0.3, 0.5), (0.5, 0.7)),
            Curve("metaner", (10, 50, 1000), (0.5, 0.6, 0.7)),
        ),
        log=(
            {"phase": "pretrain", "step": 10, "epoch": 1, "loss": 3.0, "dev_f1": None},
            {"phase": "pretrain", "step": 20, "epoch": 2, "loss": 2.0, "dev_f1": 0.4},
            {"phase": "adapt", "step": 5, "epoch": 1, "loss": 1.5, "dev_f1": 0.5},
        ),
        config={"method": {"name": "finetune", "rates": [0.1, 0.2]}, "seed": 1},
    )


def test_json_round_trip(tmp_path: Path) -> None:
    report = full_report()
    report.save(tmp_path / "report.json")
    assert RunReport.load(tmp_path / "report.json") == report
    row = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert row["version"] == 1
    assert row["scores"]["f1"] == pytest.approx(0.5)
    assert row["comparisons"][0] == {
        "name": "finetune", "mean": pytest.approx(0.6), "low": pytest.approx(0.3516, abs=1e-3),
        "high": pytest.approx(0.8484, abs=1e-3), "n": 3, "note": "baseline",
    }  # fmt: skip
    assert row["curves"][1]["xs"] == [10, 50, 1000]
    assert row["warnings"][0]["level"] == "warning"
    del row["warnings"]  # as earlier versions wrote it
    assert RunReport.from_dict(row).warnings == ()


@pytest.mark.parametrize(
    ("content", "found"), [("{", "not JSON"), ("[]", "not a report"), ('{"version": 9}', "version 9")]
)
def test_unusable_files(tmp_path: Path, content: str, found: str) -> None:
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(CheckpointError, match=rf"r\.json: .*{found}"):
        RunReport.load(tmp_path / "r.json")
    with pytest.raises(CheckpointError, match="cannot be read"):
        RunReport.load(tmp_path / "missing.json")


def test_tables_hold_the_numbers() -> None:
    made = {table.key: table for table in tables(full_report())}
    assert list(made) == [
        "comparisons", "curves", "overall", "types", "errors", "confusions", "familiarity", "log", "config",
    ]  # fmt: skip
    assert made["overall"].rows[0] == ("spans", "50.00", "50.00", "50.00", "4", "4", "2")
    assert made["types"].rows[0] == ("PER", "40.00", "33.33", "50.00", "2", "3", "1")
    assert made["errors"].rows[-1] == ("all", "2", "1", "1", "0", "0", "0")
    assert made["confusions"].rows == (("ORG", "PER", "1"),)
    assert made["familiarity"].rows[0][0] == "seen"
    assert made["curves"].rows[1] == ("50", "–", "60.00")
    assert made["comparisons"].rows[2] == ("one run", "", "50.00", "–", "1")
    assert made["log"].headers == ("phase", "updates", "epoch", "loss", "dev_f1")
    assert made["log"].rows[0] == ("pretrain", "10", "1", "3", "–")
    assert ("method.rates", "0.1, 0.2") in made["config"].rows
    assert all(len(row) == len(table.headers) for table in made.values() for row in table.rows)


def test_empty_parts_are_left_out() -> None:
    empty = RunReport("nothing yet")
    assert tables(empty) == []
    assert headline(empty) == []
    assert RunReport.from_dict(empty.to_dict()) == empty


def test_headline() -> None:
    assert dict(headline(full_report()))["F1"] == "50.00"


def test_example_lines() -> None:
    report = full_report()
    assert report.analysis is not None
    shown = {e.place: example_lines(e) for e in report.analysis.examples}
    (_, gold, gold_marks), (_, found, found_marks) = shown["test.conll:1"]
    assert gold.spans == GOLD[0].spans
    assert gold_marks == {}
    assert found_marks == {Span(0, 1, "PER"): "wrong border"}
    assert [s.score for s in found.spans] == [0.5, 0.9]
    right = RunReport.of("all right", GOLD, GOLD).analysis
    assert right is not None
    assert [role for role, _, _ in example_lines(right.examples[0])] == ["right"]


def test_flat_settings() -> None:
    assert list(flat({"a": {"b": 1, "c": {"d": "x,y"}}, "e": (1, 2)})) == [
        ("a.b", "1"), ("a.c.d", "x,y"), ("e", "1, 2"),
    ]  # fmt: skip
