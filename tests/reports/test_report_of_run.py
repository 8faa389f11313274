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
from nershift.evaluation.run_warnings import RunWarning
from nershift.reports.model import RunReport
from nershift.reports.run import read_log, report_of_run, show_run, write_report


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
    assert "`nershift fit` judge" in report.notes[-1]


def test_broken_parts_are_named(folder: Path) -> None:
    (folder / "log.jsonl").write_text('{"step": 1}\n{"step"\n')
    with pytest.raises(CheckpointError, match=r"log\.jsonl:2: not JSON"):
        report_of_run(folder)
    (folder / "metrics.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"metrics\.json: not a JSON object"):
        report_of_run(folder)


def change(folder: Path, **metrics: object) -> None:
    path = folder / "metrics.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | metrics))


def shown(folder: Path) -> str:
    out = io.StringIO()
    show_run(folder, Console(file=out, width=200))
    return out.getvalue()


def test_a_run_that_failed_says_so_first(folder: Path) -> None:
    row = {"kind": "unusable", "level": "failed", "found": "This tagger is not usable.", "fix": "More labels."}
    change(folder, warnings=[row])
    assert report_of_run(folder).warnings == (RunWarning("unusable", "failed", row["found"], row["fix"]),)
    assert shown(folder).startswith("Failed: This tagger is not usable. → More labels.\ntoy · finetune\n")
    write_report(folder)
    assert RunReport.load(folder / "report.json") == report_of_run(folder)
    assert (folder / "report.md").read_text(encoding="utf-8").startswith("> **Failed:** This tagger is not usable.")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.index('class="failed"') < page.index("<h1>")


def test_commands_on_the_console_name_the_folder(folder: Path) -> None:
    fix = "`nershift resume RUN --updates 60` goes on."
    change(folder, warnings=[{"kind": "undertrained", "level": "warning", "found": "Too short.", "fix": fix}])
    spaced = folder.parent / "my runs"
    folder.rename(spaced)
    assert f"`nershift resume '{spaced}' --updates 60`" in shown(spaced)
    assert report_of_run(spaced).warnings[0].fix == fix  # a folder may be moved


@pytest.mark.parametrize(
    ("selection", "dev", "said"),
    [
        ("best dev F1", 380, "best dev F1 on 380 sentences that are not among the 40 labels"),
        ("best dev F1", 40, "best dev F1 on 40 sentences"),
        ("best dev F1", None, "best dev F1"),
        ("last", 380, "last weights (the dev split was not used)"),
        ("mean of the last weights", 380, "mean of the last weights (the dev split was not used)"),
        ("mean of the last weights", None, "mean of the last weights (there is no dev split)"),
        ("best F1 on a fifth of the labels", 380, "best F1 on a fifth of the labels"),
    ],
)
def test_what_chose_the_weights(folder: Path, selection: str, dev: int | None, said: str) -> None:
    change(folder, selection=selection, **({"dev": {"sentences": dev}} if dev else {}))
    assert report_of_run(folder).notes[0].endswith(f"seed 3; model selection: {said}.")


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read_log(tmp_path / "log.jsonl") == []
