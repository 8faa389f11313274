"""Reports as one HTML file: inline style and plots, no script, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from nershift.data.spans import Sentence, Span
from nershift.errors import MissingExtraError
from nershift.evaluation.error_analysis import Example
from nershift.reports.content import Table, example_lines, headline, tables
from nershift.reports.model import RunReport
from nershift.reports.page import STYLE, TINTS
from nershift.storage import write_text

_WHAT = {
    "comparisons": "F1 of each system with its interval.",
    "curves": "F1 against the amount of labelled data, with intervals.",
    "errors": "Share of spans that are correct, wrong in one way or another, missed, or spurious.",
    "reliability": "How often entities are right that have a given confidence; the dotted line is what they say.",
    "states": "Mean shared states of source and target sentences on a plane.",
    "log": "Values logged during training.",
}


def render(report: RunReport) -> str:
    """The whole page."""
    svgs, hint = _plots(report)
    sections = [_section(table, svgs.get(table.key, "")) for table in tables(report) if not table.minor]
    examples = report.analysis.examples if report.analysis else ()
    tints = tints_of(examples)
    if examples:
        items = "".join(example_html(example, tints) for example in examples)
        sections.append(f'<section id="examples"><h2>Examples</h2>{items}</section>')
    sections += [_section(table, svgs.get(table.key, "")) for table in tables(report) if table.minor]
    method = f'<p class="method">{escape(report.method)}</p>' if report.method else ""
    verdict = f'<p class="verdict">{escape(report.verdict)}</p>' if report.verdict else ""
    notes = "".join(f"<p>{escape(note)}</p>" for note in report.notes)
    header = f"{method}<h1>{escape(report.title)}</h1>{verdict}{_numbers(report)}{notes}{hint}"
    return document(report.title, header, sections)


def document(title: str, header: str, sections: Sequence[str], wide: bool = False) -> str:
    """A whole page around parts that are HTML already; ``wide`` gives large tables more room."""
    main = '<main class="wide">' if wide else "<main>"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{main}\n"
        f"<header>{header}</header>\n" + "\n".join(sections) + "\n</main>\n</body>\n</html>\n"
    )


def save(report: RunReport, path: str | Path) -> None:
    """Write the page; the file appears whole or not at all."""
    write_page(path, render(report))


def write_page(path: str | Path, page: str) -> None:
    # A lone surrogate has no UTF-8 form; a reader sees its number instead.
    write_text(Path(path), page.encode("utf-8", "backslashreplace").decode("utf-8"))


def _plots(report: RunReport) -> tuple[dict[str, str], str]:
    from nershift.reports.plots import plots

    try:
        return plots(report), ""
    except MissingExtraError as missing:
        return {}, f'<p class="hint">No plots: {escape(missing.found)}. {escape(missing.fix)}</p>'


def tints_of(examples: Sequence[Example]) -> dict[str, int]:
    """Which of the tints of the page each label of the examples has."""
    labels = sorted({span.label for e in examples for o in e.outcomes for span in (o.gold, o.pred) if span})
    return {label: i % TINTS for i, label in enumerate(labels)}


def _numbers(report: RunReport) -> str:
    numbers = headline(report)
    if not numbers:
        return ""
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in numbers)
    return f'<dl class="numbers">{cells}</dl>'


def _section(table: Table, svg: str) -> str:
    figure = figure_html(svg, _WHAT[table.key]) if svg else ""
    body = table_html(table)
    if table.minor:
        body = f"<details><summary>{len(table.rows)} rows</summary>{body}</details>"
    return f'<section id="{table.key}"><h2>{escape(table.title)}</h2>{figure}{body}</section>'


def figure_html(svg: str, what: str) -> str:
    """A drawing with a caption that also names it to those who cannot see it."""
    labelled = svg.replace("<svg", f'<svg aria-label="{escape(what)}"', 1)
    return f"<figure>{labelled}<figcaption>{escape(what)}</figcaption></figure>"


def table_html(table: Table) -> str:
    """A table in a box of its own, which scrolls where the page is too narrow for it."""

    def cell(tag: str, i: int, text: str) -> str:
        if i < table.words:
            return f'<{tag} class="w">{escape(text)}</{tag}>'
        if tag == "td" and i == table.share:
            return f'<td class="bar" style="--share:{escape(text)}%">{escape(text)}</td>'
        return f"<{tag}>{escape(text)}</{tag}>"

    head = "".join(cell("th", i, header) for i, header in enumerate(table.headers))
    rows = ""
    for n, row in enumerate(table.rows):
        told = ' class="below"' if n in table.below else ""
        rows += f"<tr{told}>{''.join(cell('td', i, c) for i, c in enumerate(row))}</tr>"
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{note}'


def example_html(example: Example, tints: dict[str, int]) -> str:
    """Gold and found spans of a sentence below each other, or one line where all is right."""
    lines = ""
    for role, sentence, marks in example_lines(example):
        words = entities(sentence, tints, marks)
        lines += f'<p class="line"><span class="role">{role}</span><span dir="auto">{words}</span></p>'
    place = f'<p class="place">{escape(example.place)}</p>' if example.place else ""
    return f'<article class="example">{lines}{place}</article>'


def entities(sentence: Sentence, tints: dict[str, int], marks: dict[Span, str] | None = None) -> str:
    """The sentence as HTML with each entity tinted by type, its label beside it, and wrong ones marked.

    Args:
        sentence: The spans of this sentence are shown.
        tints: Which of the tints of the page each label has.
        marks: What is wrong with some spans, such as ``missed``.
    """
    parts, at = [], 0
    for span in sentence.spans:
        parts += [escape(token) for token in sentence.tokens[at : span.start]]
        words, mark = escape(" ".join(sentence.tokens[span.start : span.end])), (marks or {}).get(span)
        wrong = f' <b class="x">✗ {escape(mark)}</b>' if mark else ""
        kind = f"e t{tints.get(span.label, 0)}" + (" wrong" if mark else "")
        score = f' title="score {span.score:.3f}"' if span.score is not None else ""
        tag = f"<small>{escape(span.label)}{wrong}</small>"
        parts.append(f'<span class="{kind}"{score}>{words}{tag}</span>')
        at = span.end
    return " ".join([*parts, *(escape(token) for token in sentence.tokens[at:])])
