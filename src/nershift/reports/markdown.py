"""Reports as Markdown that reads well on a code host and in a plain editor."""

from __future__ import annotations

import re

from nershift.data.spans import Sentence, Span
from nershift.evaluation.run_warnings import RunWarning
from nershift.reports.content import (
    LEVEL_NAMES,
    ReportTable,
    by_level,
    code_pieces,
    contents,
    example_lines,
    headline,
    pieces,
    run_is,
    tables,
)
from nershift.reports.model import RunReport

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&])")


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _escaped(" ".join(text.split()))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def markdown_table(table: ReportTable) -> str:
    """A pipe table with its title and note."""
    lines = [f"## {escape(table.title)}", ""]
    lines.append("| " + " | ".join(escape(header) for header in table.headers) + " |")
    lines.append("|" + "|".join(":--" if i < table.words else "--:" for i in range(len(table.headers))) + "|")
    lines += ["| " + " | ".join(escape(cell) for cell in row) + " |" for row in table.rows]
    return "\n".join([*lines, *(["", escape(table.note)] if table.note else [])])


def marked(sentence: Sentence, marks: dict[Span, str]) -> str:
    """The sentence with each entity in bold, its type and what is wrong with it behind it."""
    parts = []
    for words, span in pieces(sentence):
        tag = "" if span is None else f"{span.label}: {marks[span]}" if span in marks else span.label
        parts.append(escape(words) if span is None else f"**{escape(words)}** _({escape(tag)})_")
    return " ".join(parts)


def warned(warning: RunWarning) -> str:
    """A quoted paragraph: what was found, and the next step."""
    return f"> **{LEVEL_NAMES[warning.level]}:** {escape(warning.found)} → {commanded(warning.fix)}"


def commanded(text: str) -> str:
    """Text with commands in backquotes, which stay as they are."""
    return "".join(f"`{piece}`" if command else _escaped(piece) for piece, command in code_pieces(text))


def anchor(title: str) -> str:
    """The name that code hosts give to a heading.

    Example:
        >>> anchor("What became of each span")
        'what-became-of-each-span'
    """
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def render(report: RunReport) -> str:
    """The whole report.

    Example:
        >>> print(render(RunReport("a_run", verdict="All good.")), end="")
        # a\\_run
        <BLANKLINE>
        All good.
    """
    title = f"# {escape(report.title)}" + (f" ({escape(report.method)})" if report.method else "")
    failed, others = by_level(report.warnings, "failed"), by_level(report.warnings, "warning", "hint")
    blocks = ["\n>\n".join(map(warned, failed)), title, commanded(report.verdict), "\n>\n".join(map(warned, others))]
    blocks = [block for block in (*blocks, commanded(run_is(report))) if block]
    if numbers := headline(report):
        blocks.append(", ".join(f"{escape(name)} **{escape(value)}**" for name, value in numbers))
    blocks += [escape(line) for line in report.notes]
    if len(sections := contents(report)) > 2:
        blocks.append("\n".join(f"- [{escape(title)}](#{anchor(title)})" for _, title in sections))
    if report.analysis is not None and report.analysis.examples:
        blocks.append("## Examples")
        for example in report.analysis.examples:
            lines = (f"> {role}: {marked(s, marks)}" for role, s, marks in example_lines(example))
            blocks.append("  \n".join(lines))
    blocks += [markdown_table(table) for table in tables(report)]
    return "\n\n".join(blocks) + "\n"
