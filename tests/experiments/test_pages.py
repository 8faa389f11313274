"""The papers' pages, and the summary that points to them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from made_results import finish, store

from experiments.pages import page, write_pages
from experiments.papers import TABLES, TITLES, get_table
from experiments.store import ROOT

SUMMARY = ROOT.parent / "docs" / "results.md"


def test_a_page_has_every_table_of_its_paper_and_a_link_to_each(tmp_path: Path) -> None:
    for cell in get_table("metaner-lambda").cells((1,)):
        finish(tmp_path, cell, {"test": {"f1": 0.5}}, np.ones((4, 3)))
    text = page("metaner", store(tmp_path))
    assert text.startswith("<!-- Generated")
    headings = re.findall("^## (.*)$", text, re.MULTILINE)
    assert headings == [t.title for t in TABLES.values() if t.paper == "metaner"]
    assert "| `metaner-lambda` | 5 | [MetaNER Figure 8: λ on bionlp13pc](#metaner-figure-8-λ-on-bionlp13pc) |" in text
    assert "| λ = 0.2 | 50.00 (1 run) |" in text
    assert len(set(re.findall(r"\]\((#.*?)\)", text))) == len(headings)


def test_every_paper_has_its_page(tmp_path: Path) -> None:
    assert [path.parent.name for path in write_pages(store(tmp_path))] == list(TITLES)
    assert "Not run." in (tmp_path / "laner" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("paper", TITLES)
def test_committed_pages_have_todays_tables(paper: str) -> None:
    """Their numbers are compared by `make results`, which takes a while."""
    text = (ROOT / paper / "README.md").read_text(encoding="utf-8")
    for table in TABLES.values():
        if table.paper == paper:
            assert f"## {table.title}\n" in text
            assert all(f"| {row} |" in text for row in table.layout()[0])
            assert all(note in text for note in table.notes)


def test_figures_of_the_summary_are_those_of_the_pages() -> None:
    text = SUMMARY.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 45
    linked, numbers = "", 0
    for line in text.splitlines():
        if not line.startswith("| ") or line.startswith("| paper"):
            continue
        name, _, paper, ours, _ = (cell.strip() for cell in line[1:-1].split("|"))
        if name:
            linked = (SUMMARY.parent / name.partition("(")[2].rstrip(")")).read_text(encoding="utf-8")
        for figure in filter(None, (paper, ours)):
            assert figure in linked, line
            numbers += 1
    assert numbers > 25
