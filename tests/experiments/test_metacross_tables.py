from __future__ import annotations

import pytest

from experiments.papers import get_table
from nershift.run import resolve


@pytest.mark.parametrize(("name", "cells"), [("table3", 10), ("table4", 25), ("table6", 30)])
def test_every_place_has_a_published_number(name: str, cells: int) -> None:
    table = get_table(f"metacross-{name}")
    made = table.cells((1,))
    assert len(made) == cells
    assert {table.place(c) for c in made} == set(table.published)
    for c in made:
        resolve(c.method, c.config)


def test_published_means_and_gains() -> None:
    """The averages that the paper prints are those of what was copied."""
    table4, table6 = get_table("metacross-table4").published, get_table("metacross-table6").published
    means = {
        row: sum(v for (r, _), v in table.items() if r == row) / 5 for table in (table4, table6) for row, _ in table
    }
    printed = {
        "metacross": 72.71,
        "no max loss": 71.36,
        "no masking": 72.16,
        "neither": 71.25,
        "direct": 70.45,
    }
    printed |= {"direct, 1%": 74.24, "metacross, 1%": 75.70, "metacross, 2%": 77.32, "metacross, 5%": 79.32}
    for row, value in printed.items():
        assert means[row] == pytest.approx(value, abs=0.006)
    gains = [means[f"metacross, {x}%"] - means[f"direct, {x}%"] for x in (1, 2, 5)]
    assert sum(gains) / 3 == pytest.approx(1.47, abs=0.01)


def test_what_shares_a_pretraining_and_a_result() -> None:
    table3, table4, table6 = (get_table(f"metacross-{n}").cells((1,)) for n in ("table3", "table4", "table6"))
    assert {c.key for c in table3} <= {c.key for c in table4}
    # direct and metacross, each with and without MISC; ablations have their own.
    assert len({c.pretraining for c in table3}) == 4
    assert len({c.pretraining for c in table4}) == 10
    assert {c.pretraining for c in table6} == {c.pretraining for c in table3}
    mapped = {c.target for c in table3 if c.config.get("options", {}).get("labels")}
    assert mapped == {"europeana_fr", "msra_zh"}


def test_rates_are_chosen_on_english_dev_alone() -> None:
    table = get_table("metacross-rates")
    cells = table.cells(table.seeds)
    assert table.seeds == (1,)
    assert {(c.target, *c.sources) for c in cells} == {("conll2003_en", "conll2003_en")}
    assert len({c.key for c in cells}) == len(cells)
    for c in cells:
        resolve(c.method, c.config)
    adapted = {"dev": {"f1": 0.8}, "dev_adaptation": {"f1_before": 0.7, "tokens_changed": 0.1, "rate": 0.01}}
    metrics = {"test": {"f1": 0.1}, **adapted}
    assert [table.value(metrics, part) for part in table.parts] == [0.8, 0.7, 0.1, 0.01]
    assert [table.value({"dev": {"f1": 0.8}}, part) for part in table.parts] == [0.8, 0.8, 0.0, 0.0]


def test_what_adaptation_does_is_read_from_the_runs_of_the_other_tables() -> None:
    table = get_table("metacross-adaptation")
    assert {c.key for c in table.cells((1,))} <= {c.key for c in get_table("metacross-table4").cells((1,))}
    metrics = {"test": {"f1": 0.6}, "test_adaptation": {"f1_before": 0.5, "tokens_changed": 0.02}}
    assert [table.value(metrics, part) for part in table.parts] == [0.6, 0.5, 0.02]


def test_base_and_metacross_are_trained_alike() -> None:
    """The same steps, rate and precision, so that a difference is the method's."""
    cells = get_table("metacross-table3").cells((1,))
    assert len({str(resolve(c.method, c.config).pretrain) for c in cells}) == 1
    assert len({str(resolve(c.method, c.config).encoder) for c in cells}) == 1
