"""The page over all results: what it holds, that it is whole, and that it needs nothing from outside."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from made_results import finish, store

from experiments.cells import Cell
from experiments.error_analysis import summarise_errors
from experiments.figures import amounts, charts_of, ranking
from experiments.papers import TABLES, get_table
from experiments.ranks import rank_systems
from experiments.report import _notes, as_html, as_markdown_page, gather, write
from experiments.report_calibration import calibration_table
from experiments.show import view
from experiments.store import ResultStore
from nershift.data.builtin import builtin_corpus
from nershift.data.formats import write_corpus
from nershift.data.spans import Sentence
from nershift.errors import ConfigError

SHOWN = (
    "metaner-table3",
    "metaner-fig7",
    "metaner-lambda",
    "metaner-fig8",
    "datnet-table3",
    "crosslm-fig7-bionlp13pc",
)


def _write(results: Path, cells: Iterable[Cell]) -> None:
    rng = np.random.default_rng(0)
    for cell in cells:
        right = (rng.random(80) < 0.5 + 0.02 * len(cell.method)).astype(int)
        counts = np.stack([right, np.ones(80, int), np.ones(80, int)], 1)
        score = {"f1": float(right.mean()), "support": 40}
        types = {"Complex": score, "Simple_chemical": score}
        metrics = {"test": score | {"by_type": types}, "selection": "best dev F1"}
        finish(results, cell, metrics, counts)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    folder = tmp_path_factory.mktemp("results")
    for name in SHOWN:
        _write(folder, get_table(name).cells((1, 2)))
    return store(folder)


class Tags(HTMLParser):
    """Checks that tags nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        """``<use …/>`` opens and closes at once."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_fetches_nothing(results: ResultStore, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (page, told) = write(results, tmp_path / "out", markdown=True)
    text = page.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert not re.search(r"https?://|<script|<link|<img|@import|url\((?!#)", text)
    assert text.count("<svg") >= 6
    for table in TABLES.values():
        assert table.title.replace("'", "&#x27;").replace("&", "&amp;").replace("&amp;#", "&#") in text
        assert f"## {table.title}" in told.read_text(encoding="utf-8")
    assert "not run" in text
    assert text.count("prefers-color-scheme: dark") == 1


def test_each_shape_of_table_has_its_chart(results: ResultStore) -> None:
    pytest.importorskip("matplotlib")
    told = {name: [c.what for c in charts_of(view(get_table(name), results))] for name in SHOWN}
    assert told["metaner-fig7"][0].startswith("F1 against share of target labels")
    assert told["metaner-lambda"][0].startswith("F1 against λ")
    assert told["datnet-table3"][0].startswith("F1 against labelled target sentences")
    assert told["crosslm-fig7-bionlp13pc"] == ["F1 by type."]
    assert told["metaner-fig8"][0].startswith("F1 on bionlp13pc")
    assert told["metaner-table3"][0].startswith("Mean F1 over all columns")
    assert all(len(charts) == 1 for charts in told.values())
    assert list(charts_of(view(get_table("laner-fig4"), results))) == []


def test_names_that_end_in_numbers_are_amounts() -> None:
    assert amounts(["λ = 0.2", "λ = 0.4", "λ = 1.0"]) is not None
    assert amounts(["0.1", "0.2", "1"]) is not None
    assert amounts(["es 10", "es 50", "nl 10"]) is None  # two points make no curve
    assert amounts(["wnut2016", "wnut2017", "conll2003"]) is None
    assert amounts([]) is None


def test_ranks_are_over_whole_rows_only(results: ResultStore, tmp_path: Path) -> None:
    made = view(get_table("metaner-table3"), results)
    found = ranking(made)
    assert found is not None
    columns = [c for c in made.columns if c != "mean"]
    means = {
        row: [float(np.mean(made.shown[row, c].scores)) for c in columns]
        for row in dict.fromkeys(r for r, _ in made.shown)
    }
    assert found == rank_systems(means)
    cells = [c for c in get_table("metaner-table3").cells((1,)) if c.target != "re3d" or c.method != "protonet"]
    _write(tmp_path, cells)
    less = ranking(view(get_table("metaner-table3"), store(tmp_path)))
    assert less is not None
    assert "protonet" not in less.names
    assert ranking(view(get_table("metaner-fig7"), results)) is None


def test_errors_and_examples_come_from_results_and_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = builtin_corpus("market")
    write_corpus(tmp_path / "data" / "bionlp13pc", corpus)
    monkeypatch.setenv("NERSHIFT_DATA", str(tmp_path / "data"))
    from experiments import jobs

    jobs.corpus.cache_clear()
    gold = corpus.test
    wrong = [Sentence.of(s.tokens, [(x.start, x.end, "person") for x in s.spans]) for s in gold]
    for cell in get_table("metaner-table3").cells((1,)):
        if cell.target == "bionlp13pc" and cell.method in ("metaner", "finetune"):
            counts = np.array([[1, 1, 1]] * 10)
            metrics = {"test": {"f1": 1.0, "by_type": {}}}
            errors = summarise_errors(gold, wrong, corpus.train)
            finish(tmp_path / "results", cell, metrics, counts, errors=errors)
    (part,) = gather(store(tmp_path / "results"), ["metaner-table3"])
    (found,) = part.errors
    assert [t.key for t in found.tables] == ["confusions", "familiarity"]
    assert all(pred == "person" for _, pred, _ in found.tables[0].rows)
    assert found.examples
    assert found.examples[0].tokens in {s.tokens for s in gold}
    page = as_html([part])
    assert "✗ wrong type" in page
    assert "person: wrong type" in as_markdown_page([part])
    jobs.corpus.cache_clear()
    monkeypatch.setenv("NERSHIFT_DATA", str(tmp_path / "nowhere"))
    (part,) = gather(store(tmp_path / "results"), ["metaner-table3"])
    assert part.errors[0].examples == ()
    assert "where the corpus is at hand" in part.errors[0].notes[0]
    jobs.corpus.cache_clear()


def test_calibration_is_told_over_runs() -> None:
    def run(target: str, before: float, after: float) -> tuple[Cell, dict[str, object]]:
        test = {"before": {"ece": before}, "after": {"ece": after}}
        return Cell("t", "m", target, (), 1), {"calibration": {"temperature": 2.0, "test": test}}

    table = calibration_table([run("a", 0.1, 0.05), run("a", 0.3, 0.15), run("b", 0.02, 0.04)])
    assert table is not None
    assert table.rows[0] == ("a", "2.00", "20.00", "10.00", "2 of 2")
    assert table.rows[-1] == ("all", "2.00", "14.00", "8.00", "2 of 3")
    assert calibration_table([(Cell("t", "m", "a", (), 1), {"calibration": {"test": {}}})]) is None


def test_notes_are_escaped_and_their_code_is_marked() -> None:
    assert _notes(["a < b, `nershift fit`"]) == '<p class="note">a &lt; b, <code>nershift fit</code></p>'


def test_the_command(results: ResultStore, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from experiments.__main__ import app

    places = ["--results", str(results.folder), "--work", str(results.work)]
    arguments = ["report", "metaner-lambda", *places, "--out", str(tmp_path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "report.html").exists()
    assert not (tmp_path / "report.md").exists()
    wrong = CliRunner().invoke(app, ["report", "metaner-lamda", *places])
    assert isinstance(wrong.exception, ConfigError)
