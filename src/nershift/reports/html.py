"""Reports as one HTML file: inline style and plots, no script, nothing fetched. The pages are in ``templates/``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nershift.data.spans import Sentence, Span
from nershift.errors import MissingExtraError
from nershift.evaluation.error_analysis import Example
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
from nershift.storage import write_text

if TYPE_CHECKING:
    from jinja2 import Environment

_CAPTIONS = {
    "comparisons": "F1 of each system with its interval.",
    "curves": "F1 against the amount of labelled data, with intervals.",
    "errors": "Share of spans that are correct, wrong in one way or another, missed, or spurious.",
    "reliability": "How often entities are right that have a given confidence; the dotted line is what they say.",
    "states": "Mean shared states of source and target sentences on a plane.",
    "log": "Values logged during training.",
}
_TINTS = 8  # hues of entity types; the label beside each entity is what tells types apart


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("nershift.reports")
    environment = Environment(loader=loader, autoescape=_escaped, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"pieces": pieces, "code_pieces": code_pieces}
    return environment


def _escaped(template: str | None) -> bool:
    return not str(template).endswith(".md.jinja")


def page(template: str, **values: Any) -> str:
    """A page from one of the templates; all values are escaped, except in Markdown."""
    return _templates().get_template(template).render(values)


def _part(name: str, *values: Any) -> str:
    return str(getattr(_templates().get_template("parts.html").module, name)(*values))


def render(report: RunReport) -> str:
    """The whole page."""
    from nershift.reports.plots import plots

    svgs, missing = dict[str, str](), None
    try:
        svgs = plots(report)
    except MissingExtraError as error:
        missing = error
    examples = report.analysis.examples if report.analysis else ()
    return page(
        "report.html",
        title=report.title,
        report=report,
        levels=LEVEL_NAMES,
        failed=by_level(report.warnings, "failed"),
        warnings=by_level(report.warnings, "warning", "hint"),
        run_is=run_is(report),
        numbers=headline(report),
        contents=contents(report),
        tables=tables(report),
        plots=svgs,
        captions=_CAPTIONS,
        missing=missing,
        examples=[(example_lines(e), e.place) for e in examples],
        tints=tints_of(examples),
    )


def document(title: str, header: str, sections: Sequence[str], wide: bool = False) -> str:
    """A whole page around parts that are HTML already; ``wide`` gives large tables more room."""
    from markupsafe import Markup

    return page("page.html", title=title, header=Markup(header), sections=[Markup(s) for s in sections], wide=wide)


def save(report: RunReport, path: str | Path) -> None:
    """Write the page; the file appears whole or not at all."""
    write_page(path, render(report))


def write_page(path: str | Path, content: str) -> None:
    # A lone surrogate has no UTF-8 form; a reader sees its number instead.
    write_text(Path(path), content.encode("utf-8", "backslashreplace").decode("utf-8"))


def tints_of(examples: Sequence[Example]) -> dict[str, int]:
    """Which of the tints of the page each label of the examples has."""
    labels = sorted({span.label for e in examples for o in e.outcomes for span in (o.gold, o.pred) if span})
    return {label: i % _TINTS for i, label in enumerate(labels)}


def figure_html(svg: str, caption: str) -> str:
    return _part("figure", svg, caption)


def table_html(table: ReportTable) -> str:
    return _part("cells", table)


def example_html(example: Example, tints: dict[str, int]) -> str:
    """Gold and found spans of a sentence below each other, or one line where all is right."""
    return _part("example", example_lines(example), example.place, tints)


def entities(sentence: Sentence, tints: dict[str, int], marks: dict[Span, str] | None = None) -> str:
    """The sentence with each entity tinted by type (``tints``), and what is wrong with some of them (``marks``)."""
    return _part("entities", sentence, tints, marks or {})
