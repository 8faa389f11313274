"""The report of a run in a browser: on a phone nothing is cut off, and what scrolls shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nershift.data.spans import Sentence
from nershift.evaluation.run_warnings import RunWarning
from nershift.reports import html
from nershift.reports.model import RunReport


@pytest.fixture
def page_file(tmp_path: Path) -> Path:
    labels = ("organisation", "a-type-with-a-long-name", "place")
    gold = [Sentence.of(["Ada", "saw", "Rome"], [(0, 1, label)]) for label in labels] * 6
    found = [s.with_spans(()) if i % 3 == 0 else s for i, s in enumerate(gold)]
    fix = RunWarning("undertrained", "warning", "Too few updates.", "`nershift resume RUN --updates 9` goes on.")
    report = RunReport.of("A run", gold, found, verdict="On test, place works (F1 90).", warnings=(fix,))
    html.save(report, tmp_path / "report.html")
    return tmp_path / "report.html"


def opened(browser: Any, path: Path, width: int) -> Any:
    page = browser.new_context(viewport={"width": width, "height": 800}).new_page()
    page.goto(path.as_uri())
    return page


@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_fits_and_its_head_comes_first(browser: Any, page_file: Path, width: int) -> None:
    page = opened(browser, page_file, width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    tops = [page.locator(place).first.bounding_box()["y"] for place in (".verdict", ".contents", "#examples", "table")]
    assert tops == sorted(tops)
    assert tops[0] < 300  # without scrolling
    page.locator(".contents a").last.click()
    assert page.evaluate("document.querySelector(location.hash).getBoundingClientRect().top") < 800


def test_wide_tables_scroll_and_show_it(browser: Any, page_file: Path) -> None:
    page = opened(browser, page_file, 360)
    wide = "[...document.querySelectorAll('table')].map((table) => table.parentElement)"
    cut = page.evaluate(f"{wide}.filter((box) => box.scrollWidth > box.clientWidth).length")
    assert cut >= 1
    for look in ("getComputedStyle(box).overflowX === 'auto'", "getComputedStyle(box).backgroundImage !== 'none'"):
        assert page.evaluate(f"{wide}.filter((box) => box.scrollWidth > box.clientWidth).every((box) => {look})"), look
    reached = f"""{wide}.filter((box) => box.scrollWidth > box.clientWidth).every((box) => {{
      box.scrollLeft = 10_000;
      return box.querySelector('th:last-child').getBoundingClientRect().right <= innerWidth;
    }})"""
    assert page.evaluate(reached)
