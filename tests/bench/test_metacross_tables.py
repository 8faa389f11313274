from __future__ import annotations

import pytest

from nershift.bench.tables import get_table
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
        row: sum(v for (r, _), v in table.items() if r == row) / 5
        for table in (table4, table6)
        for row, _ in table
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
