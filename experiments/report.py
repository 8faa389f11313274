"""One page over all results: tables, learning curves, sweeps, ranks, errors. No network, no script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from experiments import charts as more_charts
from experiments.cells import Cell
from experiments.figures import Chart, charts_of, ranking
from experiments.papers import TABLES, TITLES, get_table
from experiments.ranks import Ranking
from experiments.report_calibration import calibration_table
from experiments.report_errors import ColumnErrors, errors_of
from experiments.show import View, as_markdown, updates_table, view
from experiments.store import ResultStore
from experiments.table import Table
from nershift.errors import MissingExtraError
from nershift.reports import html as pages
from nershift.reports.content import ReportTable as Cells
from nershift.reports.content import example_lines
from nershift.reports.drawing import styled, svg
from nershift.reports.markdown import markdown_table, marked
from nershift.storage import write_text

TITLE = "Results beside the papers"


@dataclass(frozen=True)
class Part:
    """What the page has on one table."""

    view: View
    charts: tuple[Chart, ...]
    ranking: Ranking | None
    errors: tuple[ColumnErrors, ...] = field(default=())


def gather(store: ResultStore, names: Sequence[str] | None = None) -> list[Part]:
    """Everything there is to show, table by table."""
    return [_part(get_table(name), store) for name in names or TABLES]


def _part(table: Table, store: ResultStore) -> Part:
    shown = view(table, store)
    if not shown.done:
        return Part(shown, (), None)
    return Part(shown, tuple(charts_of(shown)), ranking(shown), tuple(errors_of(shown, store)))


def write(store: ResultStore, out: Path, names: Sequence[str] | None = None, markdown: bool = False) -> list[Path]:
    """Write ``report.html``, and with ``markdown`` also ``report.md``, into ``out``."""
    parts = gather(store, names)
    out.mkdir(parents=True, exist_ok=True)
    pages.write_page(out / "report.html", as_html(parts))
    if not markdown:
        return [out / "report.html"]
    write_text(out / "report.md", as_markdown_page(parts))
    return [out / "report.html", out / "report.md"]


def as_html(parts: Sequence[Part]) -> str:
    papers: dict[str, list[Part]] = {}
    for part in parts:
        papers.setdefault(TITLES[part.view.table.paper], []).append(part)
    links = "".join(f'<a href="#{_anchor(paper)}">{escape(paper)}</a> ' for paper in papers)
    runs = _runs(parts)
    done = sum(bool(p.view.done) for p in parts)
    header = (
        f"<h1>{TITLE}</h1><p>{len(runs)} runs; {done} of {len(parts)} tables and figures have results.</p>"
        f'<nav class="papers">{links}</nav>{_hint()}'
    )
    sections = []
    for paper, mine in papers.items():
        sections.append(f'<h1 class="paper" id="{_anchor(paper)}">{escape(paper)}</h1>')
        sections += [_section(part) for part in mine if part.view.done]
        if empty := [part for part in mine if not part.view.done]:
            folded = "".join(_section(part, fold=True) for part in empty)
            sections.append(f"<section><h2>Not run</h2>{folded}</section>")
    if (trust := calibration_table(runs.values())) is not None:
        sections.append(f'<section id="calibration"><h2>{trust.title}</h2>{pages.table_html(trust)}</section>')
    return pages.document(TITLE, header, sections, wide=True)


def _runs(parts: Sequence[Part]) -> dict[str, tuple[Cell, Mapping[str, Any]]]:
    """Each run once, however many tables show it."""
    return {
        cell.key: (cell, metrics)
        for part in parts
        for place in part.view.shown.values()
        for cell, metrics in zip(place.cells, place.metrics, strict=True)
    }


def _hint() -> str:
    try:
        with styled():
            return ""
    except MissingExtraError as missing:
        return f'<p class="hint">No plots: {escape(missing.found)}. {escape(missing.fix)}</p>'


def _anchor(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower())


def _section(part: Part, fold: bool = False) -> str:
    table = part.view.table
    remarks = "".join(f"<p>{escape(note)}</p>" for note in part.view.run_notes)
    notes = _notes(table.notes)
    numbers = pages.table_html(cells(part.view))
    if fold:
        return f"<details><summary>{escape(table.title)}</summary>{numbers}{notes}</details>"
    body = "".join(_drawn(chart) for chart in part.charts) + numbers + remarks
    if part.view.comparisons:
        body += f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in part.view.comparisons)}</ul>"
    if part.ranking is not None:
        body += f"<h3>Critical difference</h3>{_drawn(_ranks_chart(part.ranking))}"
        body += f"<p>{escape(describe_ranks(part.ranking))}</p>"
    body += "".join(_errors_html(errors) for errors in part.errors) + notes
    if part.view.updates:
        body += pages.table_html(_updates(part.view))
    return f'<section id="{_anchor(table.name)}"><h2>{escape(table.title)}</h2>{body}</section>'


def _drawn(chart: Chart) -> str:
    try:
        with styled():
            return pages.figure_html(svg(chart.draw()), chart.what)
    except MissingExtraError:
        return ""


def _ranks_chart(ranks: Ranking) -> Chart:
    what = "Mean rank over data sets. Systems whose bars overlap cannot be told apart."
    return Chart(what, lambda: more_charts.critical_difference(ranks))


def describe_ranks(ranks: Ranking) -> str:
    """The ranking in words."""
    order = ", ".join(f"{name} {rank:.2f}" for name, rank in zip(ranks.names, ranks.ranks, strict=True))
    groups = "; ".join(", ".join(group) for group in ranks.groups) or "none"
    return (
        f"Mean ranks over {ranks.datasets} data sets: {order}. Friedman χ² = {ranks.chi2:.2f}, p = {ranks.p:.3g}; "
        f"critical difference (Nemenyi, 5%) {ranks.difference:.2f}. Cannot be told apart: {groups}."
    )


def cells(shown: View) -> Cells:
    """The table as a report table."""
    below = frozenset(i for i, line in enumerate(shown.lines) if line.below)
    rows = tuple((line.name, *line.cells) for line in shown.lines)
    return Cells(_anchor(shown.table.name), shown.table.title, ("", *shown.columns), rows, below=below)


def _updates(shown: View) -> Cells:
    head, lines = updates_table(shown)
    return Cells(f"{_anchor(shown.table.name)}-updates", "Updates", head, tuple(lines))


def _errors_html(errors: ColumnErrors) -> str:
    body = "".join(_drawn(chart) for chart in errors.charts)
    body += "".join(f"<h3>{escape(t.title)}</h3>{pages.table_html(t)}" for t in errors.tables)
    if errors.examples:
        tints = pages.tints_of(errors.examples)
        body += "<h3>Examples</h3>" + "".join(pages.example_html(e, tints) for e in errors.examples)
    notes = _notes(errors.notes)
    return f"<details><summary>{escape(errors.title)}</summary>{body}{notes}</details>"


def as_markdown_page(parts: Sequence[Part]) -> str:
    """The same without the drawings: all their numbers stand in the tables."""
    blocks = [block for part in parts for block in _markdown(part)]
    if (trust := calibration_table(_runs(parts).values())) is not None:
        blocks.append(markdown_table(trust) + "\n")
    return f"# {TITLE}\n\n" + "\n".join(blocks)


def _markdown(part: Part) -> Iterator[str]:
    yield as_markdown(part.view)
    if part.ranking is not None:
        yield describe_ranks(part.ranking) + "\n"
    for errors in part.errors:
        yield f"### {errors.title}\n"
        for table in errors.tables:
            yield markdown_table(table).replace("## ", "#### ", 1) + "\n"
        for example in errors.examples:
            yield ("  \n".join(f"> {role}: {marked(s, marks)}" for role, s, marks in example_lines(example)) + "\n")
        yield from (f"{note}\n" for note in errors.notes)


def _notes(notes: Iterable[str]) -> str:
    """Paragraphs; what stands between backticks is code."""
    marked_up = (re.sub("`(.+?)`", r"<code>\1</code>", escape(note)) for note in notes)
    return "".join(f'<p class="note">{note}</p>' for note in marked_up)
