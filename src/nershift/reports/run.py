"""From the folder of a finished run to its report (``report.json``, ``report.md``, ``report.html``)."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from nershift.config import read_yaml
from nershift.errors import CheckpointError
from nershift.evaluation.predictions import read_predictions
from nershift.evaluation.run_warnings import RunWarning
from nershift.parsing import parse_json
from nershift.reports import html, markdown, text
from nershift.reports.model import ComparisonRow, RunReport
from nershift.reports.states import states_of_run
from nershift.reports.verdict import verdict
from nershift.storage import write_text

_UNSCORED = "There was no test split to score."
_TO_SCORE = "Keep some labels in a file `test`, or let `nershift fit` judge on labels that it holds out."


def report_of_run(folder: str | Path) -> RunReport:
    """Score ``predictions.jsonl`` and add what ``metrics.json``, ``log.jsonl`` and ``config.yaml`` say."""
    folder = Path(folder)
    metrics = read_metrics(folder)
    parts: dict[str, Any] = {
        "method": " · ".join(str(metrics[k]) for k in ("method", "preset") if metrics.get(k)),
        "warnings": tuple(map(RunWarning.from_dict, metrics.get("warnings", ()))),
        "notes": _notes(metrics),
        "calibration": metrics.get("calibration", {}),
        "log": tuple(read_log(folder / "log.jsonl")),
        "comparisons": _tried(metrics),
        "config": read_yaml(folder / "config.yaml") if (folder / "config.yaml").exists() else {},
    }
    shared = states_of_run(folder)
    if shared is not None:
        parts["states"] = (shared,)
    title = str(metrics.get("target") or folder.resolve().name)
    if not (folder / "predictions.jsonl").exists():
        note = _UNSCORED if parts["comparisons"] else f"{_UNSCORED} {_TO_SCORE}"
        return RunReport(title, **{**parts, "notes": (*parts["notes"], note)})
    report = RunReport.of(title, *read_predictions(folder / "predictions.jsonl"), **parts)
    return replace(report, verdict=verdict(report))


def write_report(folder: str | Path) -> RunReport:
    """Write all renderings of a run's report into its folder."""
    report = report_of_run(folder)
    report.save(Path(folder) / "report.json")
    write_text(Path(folder) / "report.md", markdown.render(report))
    html.save(report, Path(folder) / "report.html")
    return report


def show_run(folder: str | Path, console: Console) -> None:
    """Show the short form of a run's report; the commands it names can be copied as they are."""
    report, place = report_of_run(folder), shlex.quote(str(folder))
    warnings = tuple(replace(w, fix=_placed(w.fix, place)) for w in report.warnings)
    shown = replace(report, warnings=warnings, verdict=_placed(report.verdict, place))
    console.print(text.render(shown, examples=3))
    console.print(Text(f"\nreport: {Path(folder) / 'report.html'}"))


def _placed(told: str, place: str) -> str:
    """Commands with the folder of the run in place of ``RUN``."""
    return re.sub(r"(?<= )RUN(?=[ `])", lambda _: place, told)


def _tried(metrics: dict[str, Any]) -> tuple[ComparisonRow, ...]:
    """The recipes among which this tagger was chosen, as they were judged then."""
    rows = [row for row in metrics.get("tried", ()) if row["f1"] is not None]
    return tuple(ComparisonRow(r["recipe"], r["f1"], r["low"], r["high"], 1, r["fate"]) for r in rows)


def read_metrics(folder: Path) -> dict[str, Any]:
    """What ``metrics.json`` says; nothing if there is no such file."""
    path = folder / "metrics.json"
    if not path.exists():
        return {}
    try:
        metrics = parse_json(path.read_text(encoding="utf-8"))
        found = "" if isinstance(metrics, dict) else "not a JSON object"
    except ValueError as error:
        metrics, found = {}, f"cannot be read ({error})"
    if found:
        raise CheckpointError(
            found,
            place=str(path),
            expected="what nershift wrote there",
            fix="restore it; or delete it and repeat the command that made the run, which writes it anew",
        )
    return dict(metrics)


def _notes(metrics: dict[str, Any]) -> tuple[str, ...]:
    facts = []
    if metrics.get("labelled") is not None:
        facts.append(f"{metrics['labelled']} labelled target sentences")
    if metrics.get("sources"):
        facts.append(f"sources: {', '.join(map(str, metrics['sources']))}")
    if metrics.get("seed") is not None:
        facts.append(f"seed {metrics['seed']}")
    if metrics.get("selection"):
        facts.append(f"model selection: {_selection(metrics)}")
    summary = ("; ".join(facts) + ".",) if facts else ()
    return (*summary, *map(str, metrics.get("remarks", ())))


def _selection(metrics: dict[str, Any]) -> str:
    """What chose the weights, and whether those who have only the counted labels could have chosen so."""
    chosen, dev = str(metrics["selection"]), metrics.get("dev", {}).get("sentences")
    if dev and chosen == "best dev F1":
        labelled = metrics.get("labelled")
        beyond = f" that are not among the {labelled} labels" if labelled is not None and dev > labelled else ""
        return f"{chosen} on {dev} sentences{beyond}"
    if chosen in ("last", "mean of the last weights"):
        weights = "last weights" if chosen == "last" else chosen
        return f"{weights} (the dev split was not used)" if dev else f"{weights} (there is no dev split)"
    return chosen


def read_log(path: Path) -> list[dict[str, Any]]:
    """The entries of ``log.jsonl``; none if there is no such file."""
    if not path.exists():
        return []
    entries = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        try:
            entry = parse_json(line.decode("utf-8")) if line.strip() else None
        except ValueError:
            raise CheckpointError("not JSON", place=f"{path}:{number}", fix="remove the broken line") from None
        if isinstance(entry, dict):
            entries.append(entry)
    return entries
