"""Reports of run folders."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from nershift.data.spans import Sentence, Span
from nershift.errors import CheckpointError
from nershift.evaluation.predictions import write_predictions
from nershift.reports.model import RunReport
from nershift.reports.run import report_of_run, show_run, write_report


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    gold = [Sentence.of(["Ada", "left"], [(0, 1, "PER")]), Sentence.of(["Rome"], [(0, 1, "LOC")])]
    write_predictions(tmp_path / "predictions.jsonl", gold, [[Span(0, 1, "PER", 0.9)], []])
    metrics = {"method": "finetune", "target": "toy", "seed": 3, "labelled": 40, "sources": ["a", "b"]}
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    (tmp_path / "log.jsonl").write_text('{"phase": "adapt", "step": 1, "loss": 2.5, "dev_f1": null}\n')
    (tmp_path / "config.yaml").write_text("seed: 3\n")
    return tmp_path


def test_everything_in_the_folder_is_used(folder: Path) -> None:
    report = report_of_run(folder)
    assert (report.title, report.method) == ("toy", "finetune")
    assert report.scores is not None
    assert report.scores.recall == 0.5
    assert report.notes == ("40 labelled target sentences; sources: a, b; seed 3.",)
    assert report.log[0]["loss"] == 2.5
    assert report.config["seed"] == 3


def test_a_report_is_shown_and_written_in_all_renderings(folder: Path) -> None:
    out = io.StringIO()
    show_run(folder, Console(file=out, width=120))
    assert "66.67" in out.getvalue()
    write_report(folder)
    assert RunReport.load(folder / "report.json") == report_of_run(folder)
    assert (folder / "report.md").read_text(encoding="utf-8").startswith("# toy")
    assert "66.67" in (folder / "report.html").read_text(encoding="utf-8")


def test_a_run_without_test_split(folder: Path) -> None:
    (folder / "predictions.jsonl").unlink()
    report = report_of_run(folder)
    assert report.scores is None
    assert "no test split" in report.notes[-1]


def test_broken_parts_are_named(folder: Path) -> None:
    (folder / "log.jsonl").write_text('{"step": 1}\n{"step"\n')
    with pytest.raises(CheckpointError, match=r"log\.jsonl:2: not JSON"):
        report_of_run(folder)
    (folder / "metrics.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"metrics\.json: not a JSON object"):
        report_of_run(folder)
