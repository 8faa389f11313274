"""The site: every page has its place, links fit, and it builds without a warning and without the network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from website.contents import CONTENTS, sources
from website.links import moved
from website.papers import findings, section

FROM_ELSEWHERE = re.compile(r"<(?:script|img|iframe|source)[^>]+src=\"https?:|<link[^>]+stylesheet[^>]+href=\"https?:")


def test_every_page_has_a_place() -> None:
    listed = {f"{name}.md" for names in CONTENTS.values() for name in names}
    assert listed == (set(sources().values()) | {"api.md"}) - {"index.md"}


def test_links_are_made_to_fit() -> None:
    places = {"docs/a.md": "a.md", "docs/b.md": "b.md", "experiments/x/README.md": "results/x.md"}
    text = "[b](b.md#c) [x](../experiments/x/README.md) `[b](b.md)` [p](pictures/p.png) [`f`](../src/f.py)"
    assert moved(text, "docs/a.md", "a.md", places, "R") == (
        "[b](b.md#c) [x](results/x.md) `[b](b.md)` [p](pictures/p.png) [`f`](R/blob/main/src/f.py)"
    )
    assert moved("```\n[b](../docs/b.md)\n```\n", "x/y.md", "x/y.md", places, "R") == "```\n[b](../docs/b.md)\n```\n"


def test_a_papers_page_has_what_was_found() -> None:
    text = findings("metaner")
    assert text.startswith("## What we found")
    assert "discriminator" in text
    with pytest.raises(SystemExit):
        section("# Nothing", "MetaNER")


def test_the_site_builds_offline_without_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx")
    pytest.importorskip("furo")
    pytest.importorskip("myst_parser")
    import socket

    from website.build import build

    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked for")

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert build(tmp_path / "site") == 0
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 35
    assert [page.name for page in pages if FROM_ELSEWHERE.search(page.read_text("utf-8"))] == []
    assert "nershift.transfer" in (tmp_path / "site/api.html").read_text("utf-8")
    assert (tmp_path / "site/searchindex.js").exists()
