"""Terminal, Markdown and HTML renderings: complete, escaped, self-contained."""

from __future__ import annotations

import builtins
import io
import re
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nershift.data.spans import Sentence, Span
from nershift.evaluation.metrics import score
from nershift.evaluation.run_warnings import Level, RunWarning
from nershift.reports import html, markdown, text
from nershift.reports.model import ComparisonRow, Curve, RunReport
from nershift.tagger.card import model_card

NASTY = '<script>alert("x")</script> & [red]$a_b$|*`'
SIX: tuple[Level, ...] = ("failed", "warning", "warning", "warning", "hint", "hint")
VOID = {"meta", "br", "use"}


GOLD = [
    Sentence.of([NASTY, "b", "c"], [(0, 1, NASTY), (1, 2, "LOC")], place=NASTY),
    Sentence.of(["Ada", "Lovelace", "wrote"], [(0, 2, "PER")]),
]


def nasty_report() -> RunReport:
    return RunReport.of(
        NASTY,
        GOLD,
        [[Span(0, 1, "LOC", 0.5), Span(1, 3, NASTY)], [Span(0, 2, "PER")]],
        train=GOLD,
        method=NASTY,
        verdict=NASTY,
        notes=(NASTY,),
        warnings=tuple(
            RunWarning(f"w{n}", level, f"{NASTY} {n}", f"do `make <it>` & {n}") for n, level in enumerate(SIX)
        ),
        comparisons=(ComparisonRow(NASTY, 0.5, 0.4, 0.6, 3, NASTY), ComparisonRow("b", 0.4)),
        curves=(
            Curve(NASTY, (1, 10, 100), (0.1, 0.2, 0.3), (0.1, 0.1, 0.2), (0.2, 0.3, 0.4)),
            Curve("b", (1,), (0.2,)),
        ),
        curve_axes=(NASTY, NASTY),
        log=tuple({"phase": p, "step": s, NASTY: 1.0 / s, "dev_f1": 0.5} for p in (NASTY, "q") for s in (1, 2)),
        config={NASTY: {NASTY: NASTY}},
    )


class Outline(HTMLParser):
    """Checks that tags nest, and collects tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def outline(page: str) -> Outline:
    made = Outline()
    made.feed(page)
    made.close()
    assert made.open == []
    return made


@pytest.fixture(scope="module")
def page() -> str:
    pytest.importorskip("matplotlib")
    return html.render(nasty_report())


def test_html_is_escaped_and_well_nested(page: str) -> None:
    made = outline(page)
    assert "script" not in made.tags
    assert made.tags.count("svg") == 4
    assert made.words.count(NASTY) > 10
    assert "<script" not in page


def test_failure_opens_the_page_and_warnings_follow_the_verdict(page: str) -> None:
    head = page[page.index("<header>") : page.index('<dl class="numbers">')]
    assert head.index('class="failed"') < head.index("<h1>") < head.index('class="verdict"')
    assert head.index('class="verdict"') < head.index('class="warning"') < head.index('class="hint"')
    assert re.findall(r'<li class="(\w+)"><b>(\w+):</b>', head) == [(level, level.capitalize()) for level in SIX]
    assert '<span class="fix">→ do <code>make &lt;it&gt;</code> &amp; 5</span>' in head
    assert all(f".warnings .{level}" in page for level in ("failed", "warning"))
    assert 'class="warnings"' not in html.render(RunReport("all is well"))


def test_the_axis_of_the_log_counts_updates(page: str) -> None:
    drawn = page[page.index('id="log"') : page.index("<details>", page.index('id="log"'))]
    assert ">updates<" in drawn
    assert ">epoch<" not in drawn


def test_html_is_self_contained(page: str) -> None:
    assert not re.search(r"https?:|//[a-z]|@import|<link|<img|<iframe", page)
    links = [v for k, v in outline(page).attributes if k in ("href", "xlink:href", "src")]
    assert all(v and v.startswith("#") for v in links)
    assert all(ref in page for ref in re.findall(r"url\(#(\w+)\)", page))


def test_html_fits_light_dark_and_phone(page: str) -> None:
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page
    assert "max-width: 30rem" in page
    assert "currentColor" in page
    assert "#010203" not in page


def test_html_is_deterministic(page: str) -> None:
    assert html.render(nasty_report()) == page


def test_lines_differ_without_colour(page: str) -> None:
    curves = page[page.index('id="curves"') : page.index('id="overall"')]
    assert "stroke-dasharray" in curves
    errors = page[page.index('id="errors"') : page.index('id="confusions"')]
    assert "<pattern" in errors


def test_html_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    made = outline(html.render(nasty_report()))
    assert "svg" not in made.tags
    assert "pip install 'nershift[report]'" in made.words
    assert made.tags.count("table") == 9


def test_html_file_with_a_lone_surrogate(tmp_path: Path) -> None:
    html.save(RunReport("bad \ud800 title"), tmp_path / "r.html")
    assert "bad \\ud800 title" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_entities_in_html() -> None:
    sentence = Sentence.of(["Ada", "saw", "<Rome>"], [Span(0, 1, "PER", 0.875), Span(2, 3, "LOC")])
    made = html.entities(sentence, {"PER": 3, "LOC": 1}, {Span(2, 3, "LOC"): "missed"})
    assert made == (
        '<span class="e t3" title="score 0.875">Ada<small>PER</small></span> saw '
        '<span class="e t1 wrong">&lt;Rome&gt;<small>LOC <b class="x">✗ missed</b></small></span>'
    )


def rendered(report: RunReport, colour: bool = False) -> str:
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=colour, color_system="standard" if colour else None).print(
        text.render(report, minor=True)
    )
    return out.getvalue()


def test_terminal_shows_names_as_they_are() -> None:
    shown = rendered(nasty_report())
    assert shown.count("[red]") > 10
    assert "wrong type" in shown
    assert "\x1b" not in shown
    assert "\x1b" in rendered(nasty_report(), colour=True)


def test_failure_opens_the_terminal_report_and_warnings_follow_the_verdict() -> None:
    lines = rendered(nasty_report()).split("\n")
    assert lines[0] == f"Failed: {NASTY} 0 → do `make <it>` & 0"
    assert lines[1:3] == [f"{NASTY} · {NASTY}", NASTY]
    assert [line.split(":")[0] for line in lines[3:5]] == ["Warning", "Warning"]
    assert lines[5] == "1 more in the report"
    assert "Hint" in [line.split(":")[0] for line in lines[5:]]  # hints stand below the scores
    assert rendered(RunReport("all is well")) == "all is well\n"


def test_coloured_sentence() -> None:
    sentence = Sentence.of(["Ada", "Lovelace", "left", "[London]", "."], [(0, 2, "PER"), (3, 4, "LOC")])
    made = text.coloured(sentence, {sentence.spans[1]: "missed"})
    assert made.plain == "[Ada Lovelace PER] left [[London] LOC ✗ missed] ."
    assert any(text.colour_of("PER") in str(part.style) for part in made.spans)
    assert text.coloured(Sentence.of(["plain"])).plain == "plain"


def test_markdown_tables_keep_their_columns() -> None:
    made = markdown.render(nasty_report())
    assert "<script" not in made.replace("\\<", "")
    block: list[int] = []
    for line in [*made.split("\n"), ""]:
        if line.startswith("|"):
            block.append(len(re.findall(r"(?<!\\)\|", line)))
        elif block:
            assert len(set(block)) == 1
            block = []
    assert made.count("\n|") > 20


def test_failure_opens_the_markdown_and_warnings_follow_the_verdict() -> None:
    lines = markdown.render(nasty_report()).split("\n")
    assert lines[0].startswith("> **Failed:**")
    assert lines[2].startswith("# ")
    assert [line[:8] for line in lines[6:15:2]] == [f"> **{level.capitalize()}"[:8] for level in SIX[1:]]
    assert set(lines[7:14:2]) == {">"}
    assert lines[14].endswith(r"5 → do `make <it>` \& 5")


def test_markdown_marks_entities() -> None:
    sentence = Sentence.of(["Ada", "saw", "a_b"], [Span(0, 1, "PER")])
    assert markdown.marked(sentence, {}) == r"**Ada** _(PER)_ saw a\_b"
    assert markdown.marked(sentence, {Span(0, 1, "PER"): "missed"}) == r"**Ada** _(PER: missed)_ saw a\_b"


def test_a_model_card_says_what_is_wrong_and_what_selected() -> None:
    metrics: dict[str, Any] = {"dev": score(GOLD, GOLD).to_dict(), "selection": "best dev F1"}
    metrics["warnings"] = [asdict(RunWarning(level, level, f"Found a {level}.", "Do it.")) for level in SIX[3:]]
    card = model_card("me/it", ["PER"], {}, metrics, "mit")
    assert "- Found a warning.\n" in card
    assert "Found a hint" not in card
    assert "The weights were selected on dev" in card
    assert "selected on dev" not in model_card("me/it", ["PER"], {}, metrics | {"selection": "last"}, "mit")
