"""Reports in the terminal, through rich. Nothing prints here: the functions return what a console prints."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from nershift.data.spans import Sentence, Span, overlapping
from nershift.evaluation.run_warnings import LEVELS, Level, RunWarning
from nershift.reports.content import LEVEL_NAMES, ReportTable, by_level, example_lines, headline, pieces, tables
from nershift.reports.model import RunReport

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red")
_LEVEL_STYLES: dict[Level, str] = {"failed": "bold white on red", "warning": "bold yellow", "hint": "bold"}
LOG_ROWS = 12
WARNINGS = 3  # shown; the page has all


def colour_of(label: str) -> str:
    """A colour for a label, the same in every run."""
    return _COLOURS[sum(label.encode("utf-8", "replace")) % len(_COLOURS)]


def coloured(sentence: Sentence, marks: dict[Span, str] | None = None) -> Text:
    """The sentence with each entity as ``[words LABEL]`` in its colour; nested entities take further lines.

    Args:
        sentence: The spans of this sentence are shown.
        marks: A word to add after the label of some spans, such as ``missed``.
    """
    if overlapping(sentence.spans):
        return Text("\n").join(coloured(layer, marks) for layer in sentence.layers())
    text = Text()
    for words, span in pieces(sentence):
        text.append(" " if text else "")
        if span is None:
            text.append(words)
            continue
        colour, mark = colour_of(span.label), (marks or {}).get(span, "")
        text.append(f"[{words}", f"bold {colour}").append(f" {span.label}", f"italic {colour}")
        text.append(f" ✗ {mark}" if mark else "", "bold red").append("]", f"bold {colour}")
    return text


def rich_table(table: ReportTable) -> RichTable:
    shown = RichTable(title=Text(table.title), caption=Text(table.note) if table.note else None)
    shown.title_justify = shown.caption_justify = "left"
    for i, header in enumerate(table.headers):
        shown.add_column(Text(header), justify="left" if i < table.words else "right", overflow="fold")
    for row in table.rows[-LOG_ROWS:] if table.key == "log" else table.rows:
        shown.add_row(*(Text(cell) for cell in row))
    return shown


def _warnings(warnings: Sequence[RunWarning], most: int) -> list[Text]:
    """The worst warnings with their next steps, and how many there are more."""
    lines = [
        Text().append(f"{LEVEL_NAMES[w.level]}:", _LEVEL_STYLES[w.level]).append(f" {w.found} → ").append(w.fix, "cyan")
        for w in warnings[:most]
    ]
    more = len(warnings) - most
    return [*lines, Text(f"{more} more in the report", "dim")] if more > 0 else lines


def render(report: RunReport, examples: int = 5, minor: bool = False) -> Group:
    """The whole report for a terminal, what went wrong first; learning log and settings only with ``minor``.

    Example:
        >>> from rich.console import Console
        >>> Console().print(render(RunReport("a run", verdict="All good.")))
        a run
        All good.
    """
    title = Text(report.title, "bold")
    if report.method:
        title.append(f" · {report.method}", "not bold")
    failed, serious, hints = (by_level(report.warnings, level) for level in LEVELS)
    parts: list[RenderableType] = [*_warnings(failed, WARNINGS), title]
    parts += [Text(report.verdict)] if report.verdict else []
    parts += _warnings(serious, WARNINGS - len(failed))
    parts += [Text(line) for line in report.notes]
    numbers = Text()
    for name, value in headline(report):
        numbers.append("   " if numbers else "").append(f"{name} ").append(value, "bold")
    if numbers:
        parts.append(numbers)
    parts += _warnings(hints, WARNINGS)
    for example in report.analysis.examples[:examples] if report.analysis else ():
        parts.append(Text())
        parts += [Text(f"{role:5} ", "dim") + coloured(s, marks) for role, s, marks in example_lines(example)]
    for table in tables(report):
        if minor or not table.minor:
            parts += [Text(), rich_table(table)]
    return Group(*parts)
