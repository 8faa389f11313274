"""What a report shows, as plain cells and lines, so that text, Markdown and HTML say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nershift.data.spans import Sentence, Span
from nershift.evaluation.calibration import Reliability
from nershift.evaluation.error_analysis import KINDS, Example
from nershift.evaluation.metrics import Counts
from nershift.evaluation.run_warnings import Level, RunWarning
from nershift.reports.model import RunReport

KIND_NAMES = {
    "correct": "correct",
    "type": "wrong type",
    "border": "wrong border",
    "both": "type + border",
    "missed": "missed",
    "spurious": "spurious",
}
LEVEL_NAMES: dict[Level, str] = {"failed": "Failed", "warning": "Warning", "hint": "Hint"}


@dataclass(frozen=True)
class ReportTable:
    """Cells are ready to show; the first ``words`` columns hold words, the others right-aligned numbers.

    ``share`` names a column of percentages that a rendering may also draw as bars; ``key`` is its anchor.
    ``below`` are numbers of rows that only explain the row above them.
    """

    key: str
    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    note: str = ""
    share: int | None = None
    below: frozenset[int] = frozenset()
    minor: bool = False  # reference material: a rendering may fold it away


_RUN = re.compile(r"\bRUN\b")


def percent(value: float) -> str:
    return f"{100 * value:.2f}"


def interval(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{percent(low)} – {percent(high)}"


def number(value: Any) -> str:
    """A log or axis value: short, but never rounded to nothing."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as dotted names with their values."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            items = isinstance(value, Sequence) and not isinstance(value, str)
            yield prefix + name, ", ".join(map(str, value)) if items else str(value)


def example_lines(example: Example) -> list[tuple[str, Sentence, dict[Span, str]]]:
    """(role, sentence, marks) of the lines of an example: one when all is right, else gold and found.

    The spans of a line are flat: nested ones take further lines.
    """
    gold, pred, gold_marks, pred_marks = [], [], {}, {}
    for outcome in example.outcomes:
        if outcome.gold is not None:
            gold.append(outcome.gold)
            if outcome.kind == "missed":
                gold_marks[outcome.gold] = KIND_NAMES["missed"]
        if outcome.pred is not None:
            pred.append(outcome.pred)
            if outcome.kind != "correct":
                pred_marks[outcome.pred] = KIND_NAMES[outcome.kind]
    shown = [("gold", gold, gold_marks), ("found", pred, pred_marks)] if example.errors else [("right", gold, {})]
    bare = Sentence(example.tokens)
    return [(role, layer, marks) for role, spans, marks in shown for layer in bare.with_spans(spans).layers()]


def pieces(sentence: Sentence) -> Iterator[tuple[str, Span | None]]:
    """A sentence with flat spans as runs of words: (words, the entity they are or None)."""
    at = 0
    for span in (*sentence.spans, None):
        end = span.start if span else len(sentence)
        if at < end:
            yield " ".join(sentence.tokens[at:end]), None
        if span:
            yield " ".join(sentence.tokens[span.start : span.end]), span
            at = span.end


def headline(report: RunReport) -> list[tuple[str, str]]:
    """The few numbers to read first, as (name, value)."""
    if report.scores is None:
        return []
    scores, f1 = report.scores, report.f1_interval
    rows = [("F1", percent(scores.f1))]
    if f1 is not None:
        rows.append((f"{100 * f1.level:.0f} % interval", interval(f1.low, f1.high)))
    rows += [("precision", percent(scores.precision)), ("recall", percent(scores.recall))]
    return [*rows, ("macro F1", percent(scores.macro_f1)), ("sentences", str(scores.sentences))]


def by_level(warnings: Sequence[RunWarning], *levels: Level) -> list[RunWarning]:
    """A run that failed says so before anything else; other warnings stand below the verdict."""
    return [warning for warning in warnings if warning.level in levels]


def code_pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Text with commands in backquotes as (piece, is it a command?).

    Example:
        >>> list(code_pieces("`make test` runs them"))
        [('make test', True), (' runs them', False)]
    """
    for number, piece in enumerate(text.split("`")):
        if piece:
            yield piece, number % 2 == 1


def run_is(report: RunReport) -> str:
    """What ``RUN`` stands for, where a command of the verdict or of a warning names it."""
    told = [report.verdict, *(warning.fix for warning in report.warnings)]
    named = any(command and _RUN.search(piece) for text in told for piece, command in code_pieces(text))
    return "In commands, `RUN` is the folder that this report is in." if named else ""


def contents(report: RunReport) -> list[tuple[str, str]]:
    """The sections of a report in reading order: (key, title). Examples say more than numbers, so they come first."""
    examples = [("examples", "Examples")] if report.analysis is not None and report.analysis.examples else []
    return [*examples, *((table.key, table.title) for table in tables(report))]


def tables(report: RunReport) -> list[ReportTable]:
    """All tables the report has material for, in reading order; examples stand before them."""
    every = [_comparisons(report), _curves(report), _overall(report), _types(report)]
    every += [_kinds(report), _confusions(report), _familiarity(report)]
    every += [_reliability(report), _thresholds(report), _states(report)]
    every += [_log(report), _config(report)]
    return [table for table in every if table is not None and table.rows]


def _counts(name: str, counts: Counts) -> tuple[str, ...]:
    ratios = (percent(counts.f1), percent(counts.precision), percent(counts.recall))
    return (name, *ratios, str(counts.support), str(counts.predicted), str(counts.correct))


_HEADERS = ("F1", "precision", "recall", "gold", "predicted", "correct")


def _overall(report: RunReport) -> ReportTable | None:
    if report.scores is None:
        return None
    rows = [_counts("spans", report.scores.micro)]
    if report.token_scores is not None:
        rows.append(_counts("tokens", report.token_scores.micro))
    note = "A span counts when start, end and type are right; a token when its type is right."
    return ReportTable("overall", "Overall", ("unit", *_HEADERS), tuple(rows), note=note)


def _types(report: RunReport) -> ReportTable | None:
    if report.scores is None:
        return None
    ranked = sorted(report.scores.by_type.items(), key=lambda item: (-item[1].support, item[0]))
    rows = tuple(_counts(label, counts) for label, counts in ranked)
    return ReportTable("types", "By entity type", ("type", *_HEADERS), rows, share=1)


def _kinds(report: RunReport) -> ReportTable | None:
    if report.analysis is None:
        return None
    kinds = report.analysis.kinds
    ranked = sorted(kinds, key=lambda label: (-sum(kinds[label].values()), label))
    rows = [(label, *(str(kinds[label][k]) for k in KINDS)) for label in ranked]
    if len(rows) > 1:
        rows.append(("all", *(str(report.analysis.totals[k]) for k in KINDS)))
    return ReportTable("errors", "What became of each span", ("type", *KIND_NAMES.values()), tuple(rows))


def _confusions(report: RunReport) -> ReportTable | None:
    if report.analysis is None:
        return None
    rows = tuple((gold, pred, str(count)) for gold, pred, count in report.analysis.worst(10))
    return ReportTable("confusions", "Most frequent type confusions", ("gold", "predicted", "count"), rows, words=2)


def _familiarity(report: RunReport) -> ReportTable | None:
    if report.analysis is None or report.analysis.seen is None or report.analysis.unseen is None:
        return None
    rows = (_counts("seen", report.analysis.seen), _counts("unseen", report.analysis.unseen))
    note = "Seen: the same words occur as an entity in the training data."
    return ReportTable("familiarity", "Mentions seen and unseen in training", ("mention", *_HEADERS), rows, note=note)


def calibration_lines(report: RunReport) -> dict[str, Reliability]:
    """Reliability before and after temperature: on test, or where there is none on dev."""
    parts = report.calibration.get("test") or report.calibration.get("dev") or {}
    measured = {name: Reliability.from_dict(part) for name, part in parts.items() if part["n"]}
    temperature = report.calibration.get("temperature")
    if temperature is None:  # never fitted: both are the same
        return {"as trained": measured["after"]} if "after" in measured else {}
    names = {"before": "as trained", "after": f"temperature {temperature:.2f}"}
    return {names[name]: part for name, part in measured.items()}


def _reliability(report: RunReport) -> ReportTable | None:
    rows = []
    for split in ("dev", "test"):
        for name, part in report.calibration.get(split, {}).items():
            if report.calibration.get("temperature") is None and name == "before":
                continue
            which = f"{split}, {'as trained' if name == 'before' else 'as kept'}"
            rows.append((which, percent(part["ece"]), f"{part['nll']:.4f}", str(part["n"])))
    note = "ECE: mean gap between confidence and share that is right over ten bins. Log loss: lower is better."
    headers = ("entities of", "ECE", "log loss", "found")
    return ReportTable("reliability", "Reliability of confidences", headers, tuple(rows), note=note)


def _thresholds(report: RunReport) -> ReportTable | None:
    rows = []
    for row in report.calibration.get("thresholds", ()):
        if row["confidence"] is None:
            rows.append((percent(row["precision"]), "none", "–", "–", "–"))
            continue
        shares = (percent(row["found"]), percent(row["low"]), percent(row["kept"]))
        rows.append((percent(row["precision"]), f"{row['confidence']:.3f}", *shares))
    note = "Chosen on dev so that each precision is reached with 95 % confidence; use with --min-confidence."
    headers = ("precision of at least", "threshold", "found", "lower bound", "kept")
    return ReportTable("thresholds", "Thresholds for a precision", headers, tuple(rows), note=note)


def _comparisons(report: RunReport) -> ReportTable | None:
    rows: tuple[tuple[str, ...], ...] = tuple(
        (row.name, row.note, percent(row.mean), interval(row.low, row.high), str(row.n)) for row in report.comparisons
    )
    headers: tuple[str, ...] = ("system", "note", "F1", "95 % interval", "runs")
    if any(row.note for row in report.comparisons):
        return ReportTable("comparisons", "Systems", headers, rows, words=2)
    return ReportTable("comparisons", "Systems", headers[:1] + headers[2:], tuple(row[:1] + row[2:] for row in rows))


def _curves(report: RunReport) -> ReportTable | None:
    xs = sorted({x for curve in report.curves for x in curve.xs})
    rows = []
    for x in xs:
        cells = []
        for curve in report.curves:
            at = curve.xs.index(x) if x in curve.xs else None
            cells.append("–" if at is None else percent(curve.ys[at]))
        rows.append((number(x), *cells))
    headers = (report.curve_axes[0], *(curve.name for curve in report.curves))
    return ReportTable("curves", "Learning curves", headers, tuple(rows))


def _states(report: RunReport) -> ReportTable | None:
    rows = tuple(
        (states.name, states.picture, f"{states.a_distance:.2f}", str(len(states.source)), str(len(states.target)))
        for states in report.states
    )
    headers = ("adversary", "picture", "proxy A-distance", "source", "target")
    note = "How well a linear classifier tells source from target sentences: 0 not at all, 2 without fail."
    return ReportTable("states", "Shared states", headers, rows, words=2, note=note)


def _log(report: RunReport) -> ReportTable | None:
    names = list(dict.fromkeys(name for entry in report.log for name in entry))
    rows = tuple(tuple(number(entry.get(name)) for name in names) for entry in report.log)
    headers = tuple("updates" if name == "step" else name for name in names)
    return ReportTable("log", "Learning log", headers, rows, words=int("phase" in names), minor=True)


def _config(report: RunReport) -> ReportTable | None:
    rows = tuple(flat(report.config))
    return ReportTable("config", "Settings", ("setting", "value"), rows, words=2, minor=True)
