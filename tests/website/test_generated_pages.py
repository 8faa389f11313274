"""Pages that are made from the code say what the code says today."""

from __future__ import annotations

import re

from experiments.store import ResultStore
from nershift.cli import commands_page
from website import reference, which
from website.contents import ROOT


def test_the_page_of_commands_is_up_to_date() -> None:
    assert (ROOT / "docs/commands.md").read_text("utf-8") == commands_page.page(), "run `make settings`"


def test_every_public_name_is_on_the_page_of_the_interface() -> None:
    assert reference.left_out() == set()
    page = reference.page()
    assert ".. autofunction:: nershift.transfer" in page
    assert ".. autoclass:: nershift.Tagger" in page


def test_the_table_of_methods_is_that_of_the_results() -> None:
    text = which.PAGE.read_text("utf-8")
    assert which.filled(text, ResultStore()) == text, "run `python -m website.which`"
    row = next(line for line in text.splitlines() if line.startswith("| crossner_music"))
    first = re.findall(r"\d+ / \d+ / \d+", row)[0]
    found = which.scores(ResultStore())[10]["crossner_music"]
    assert first == " / ".join(f"{value:.0f}" for value in found if value is not None)
