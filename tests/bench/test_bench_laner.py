"""LANER's tables: every cell resolves, heads share settings, published numbers have a place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nershift.bench.laner import AI_TYPES, CROSSNER, TABLES
from nershift.bench.show import markdown
from nershift.bench.tables import tables
from nershift.data.catalog import catalog
from nershift.methods import methods
from nershift.run import resolve


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_cells_can_be_run_and_published_numbers_are_shown(table, tmp_path):
    assert tables()[table.name] is table
    for cell in table.cells([1]):
        assert cell.target in catalog()
        if cell.method in methods():
            config = resolve(cell.method, cell.config)
            assert config.encoder.kind == (
                "recurrent" if cell.row in ("LSTM-CRF", "crosslm") else "transformer"
            )
    rows, columns = table.layout()
    assert all(row in rows and column in columns for row, column in table.published)
    assert "not run" in markdown(table, tmp_path)


def test_plain_heads_train_as_laner_does():
    cells = {c.name: c for c in tables()["laner-table3"].cells([1]) if c.target == "crossner_ai"}
    ours = resolve("laner", cells["LB+LC (mpnet)"].config)
    for head in ("CRF (mpnet)", "tagger (mpnet)"):
        plain = resolve("finetune", cells[head].config)
        for block in ("train", "pretrain"):
            assert replace(getattr(plain, block), decay=0) == replace(
                getattr(ours, block), decay=0
            )  # not used
        for block in ("kind", "transformer", "chars", "dropout"):
            assert getattr(plain.encoder, block) == getattr(ours.encoder, block)
    assert len({c.pretraining for c in tables()["laner-table3"].cells([1])}) == 10  # two encoders, five heads


def test_cells_of_different_tables_share_results():
    keys = {
        name: {c.key for c in tables()[name].cells([1])}
        for name in ("laner-table2", "laner-table3", "laner-fig3")
    }
    assert len(keys["laner-table2"] & keys["laner-table3"]) == 2 * len(CROSSNER)
    assert keys["laner-fig3"] & keys["laner-table3"]
    assert keys["laner-table3"] >= {c.key for c in tables()["laner-fig2"].cells([1])}


def test_types_of_figure_2_are_columns():
    assert tables()["laner-fig2"].layout()[1] == list(AI_TYPES)
