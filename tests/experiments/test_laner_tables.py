"""LANER's tables: every cell resolves, heads share settings, published numbers have a place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_results import store

from experiments.error_analysis import pack_spans, unpack_spans
from experiments.jobs import apart
from experiments.laner import tables
from experiments.papers import TABLES
from experiments.show import markdown
from nershift.data.catalog import catalog
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence, Span
from nershift.methods import METHODS
from nershift.run import resolve


@pytest.mark.parametrize("table", tables.TABLES, ids=lambda t: t.name)
def test_cells_can_be_run_and_published_numbers_are_shown(table, tmp_path):
    assert TABLES[table.name] is table
    for cell in table.cells([1]):
        assert cell.target in catalog()
        if cell.method in METHODS:
            config = resolve(cell.method, cell.settings)
            assert cell.method != "laner" or config.options["check"]
            assert config.encoder.kind == ("recurrent" if cell.row in ("LSTM-CRF", "crosslm") else "transformer")
    rows, columns = table.layout()
    assert all(row in rows and column in columns for row, column in table.published)
    assert "not run" in markdown(table, store(tmp_path))


def test_plain_heads_train_as_laner_does():
    cells = {c.name: c for c in TABLES["laner-table3"].cells([1]) if c.target == "crossner_ai"}
    ours = resolve("laner", cells["LB+LC (mpnet)"].settings)
    for head in ("CRF (mpnet)", "tagger (mpnet)"):
        plain = resolve("finetune", cells[head].settings)
        for block in ("train", "pretrain"):
            assert replace(getattr(plain, block), lr_decay=0) == replace(getattr(ours, block), lr_decay=0)  # not used
        for block in ("kind", "transformer", "chars", "dropout"):
            assert getattr(plain.encoder, block) == getattr(ours.encoder, block)
    assert len({c.pretraining for c in TABLES["laner-table3"].cells([1])}) == 10  # two encoders, five heads


def test_cells_of_different_tables_share_results():
    keys = {name: {c.key for c in TABLES[name].cells([1])} for name in ("laner-table2", "laner-table3", "laner-fig3")}
    assert len(keys["laner-table2"] & keys["laner-table3"]) == 2 * len(tables.CROSSNER)
    assert keys["laner-fig3"] & keys["laner-table3"]
    assert keys["laner-table3"] >= {c.key for c in TABLES["laner-fig2"].cells([1])}


def test_types_of_figure_2_are_columns():
    assert TABLES["laner-fig2"].layout()[1] == list(tables.AI_TYPES)


def test_steps_are_read_on_test_and_on_dev_from_the_same_runs():
    test, dev = (TABLES[name] for name in ("laner-steps", "laner-steps-dev"))
    assert [c.key for c in test.cells([1])] == [c.key for c in dev.cells([1])]
    metrics = {"dev": {"f1": 0.4}, "test": {"f1": 0.3}}
    assert (test.value(metrics, ""), dev.value(metrics, "")) == (0.3, 0.4)
    pairs = {c.name: c for c in test.cells([1]) if c.target == "crossner_ai"}
    for row in (r for r in pairs if r.startswith("tagger")):
        other = row.replace(", carried", "").replace("tagger", "LANER")
        assert pairs[row].sources == pairs[other].sources  # every step has its plain head
    keys = {c.key for c in TABLES["laner-table3"].cells([1])}
    assert pairs["LANER"].key in keys
    assert pairs["tagger"].key in keys


def test_the_tuned_preset_is_the_best_recipe_of_the_steps():
    row = next(c for c in TABLES["laner-steps"].cells([1]) if c.name == "LANER, best recipe")
    tuned, tried = resolve("laner", {"preset": "tuned"}), resolve("laner", row.settings)
    for stage in ("train", "pretrain"):
        exact = replace(getattr(tried, stage), precision="fp32")  # a machine's affair
        assert getattr(tuned, stage) == exact
    assert tuned.options == tried.options | {"check": False, "new_rows": "auto"}  # nearest, as it was then, hurts
    assert (tuned.head.kind, tuned.head.scheme) == (tried.head.kind, tried.head.scheme)


def test_recipes_and_steps_share_their_runs():
    recipes = {c.name: c.key for c in TABLES["laner-recipes"].cells([1]) if c.target == "crossner_ai"}
    steps = {c.name: c.key for c in TABLES["laner-steps"].cells([1]) if c.target == "crossner_ai"}
    assert recipes["50 epochs"] == steps["LANER, all domains, 50 epochs"]
    assert recipes["four epochs of the sources, swapped"] == steps["LANER, best recipe"]
    assert recipes["four epochs of the sources, swapped, averaged"] == steps["LANER, best recipe, averaged"]
    shared = {c.pretraining for c in TABLES["laner-recipes"].cells([1])}
    assert len(shared) == 2  # of two epochs and of four


def test_one_pretraining_on_all_domains_serves_every_target():
    cells = [c for c in TABLES["laner-steps"].cells([1]) if c.name == "LANER, all domains"]
    assert len({c.pretraining for c in cells}) == 1
    assert all(c.disjoint for c in cells)
    assert cells[0].pretraining != replace(cells[0], disjoint=False).pretraining
    assert cells[0].key != replace(cells[0], disjoint=False).key


def test_no_source_has_what_another_is_tested_on():
    def corpus(name, train, test):
        return Corpus(name, {"train": tuple(map(Sentence.of, train)), "test": tuple(map(Sentence.of, test))})

    one = corpus("one", [["A", "b"], ["c"]], [["d"]])
    other = corpus("other", [["D"], ["e"]], [["a", "B"], ["e"]])
    first, second = apart([one, other])
    assert [s.tokens for s in first.train] == [("c",)]
    assert [s.tokens for s in second.train] == [("e",)]  # its own overlap is the corpus's affair
    assert (first.test, second.test) == (one.test, other.test)


def test_a_result_keeps_the_spans_that_a_vote_needs():
    cell = next(c for c in TABLES["laner-steps"].cells([1]) if c.sources)
    assert cell.keep_spans
    assert cell.key == replace(cell, keep_spans=False).key
    tagged = [Sentence.of(["Ada", "left"], [Span(0, 1, "person", 0.25)]), Sentence.of(["So"])]
    bare = [s.with_spans(()) for s in tagged]
    found = unpack_spans(pack_spans(tagged), bare)
    assert found == tagged
    assert found[0].spans[0].score == 0.25
