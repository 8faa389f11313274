from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_results import finish, store

from experiments.datnet.tables import DAT_F, NAMES, TABLES, cell, schedule
from experiments.papers import get_table
from experiments.show import collect
from nershift.run import resolve


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_every_cell_has_a_config_that_resolves_and_a_bounded_schedule(table: object) -> None:
    assert table in TABLES
    for made in table.cells((1,)):  # type: ignore[attr-defined]
        config = resolve(made.method, made.config, made.seed)
        steps = config.train.epochs * config.options["epoch_steps"]
        assert 400 <= steps <= (600 if made.shots else 1500 if made.target.startswith("conll") else 4000)
        assert bool(made.sources) == (config.options["variant"] != "base")
        assert (config.train.patience == 0) == made.train_on_dev
        words = config.encoder.words
        assert words.vectors.startswith("glove" if made.target.startswith("wnut") else "multilingual")


def test_tables_share_the_runs_they_have_in_common() -> None:
    keys = {name: {c.key for c in get_table(name).cells((1,))} for name in ("datnet-table2", "datnet-table4")}
    assert len(keys["datnet-table2"] & keys["datnet-table4"]) == 6  # three rows, two places
    figure = {c.key for c in get_table("datnet-fig2").cells((1,))}
    assert len(figure & keys["datnet-table2"]) == 6
    sweeps = [{c.key for c in get_table(f"datnet-table{n}").cells((1,))} for n in (5, 6)]
    assert len(sweeps[0] & sweeps[1]) == 4


def test_tables_of_one_head_share_what_has_two() -> None:
    heads, full = get_table("datnet-heads"), get_table("datnet-heads-full")
    assert heads.layout()[0] == [
        "Base", "DATNet-F", "F-transfer, one head", "DATNet-F, one head", "DATNet-P, one head",
    ]  # fmt: skip
    assert len(heads.layout()[1]) == 12
    table3 = {c.key for c in get_table("datnet-table3").cells((1, 2, 3))}
    for made in heads.cells(heads.seeds):
        assert (made.key in table3) == ("one head" not in made.name)
    assert full.layout()[1] == ["conll2002_es", "conll2002_nl", "wnut2016 (train + dev)", "wnut2017"]
    for made in (c for t in (heads, full) for c in t.cells((1,)) if "one head" in c.name):
        options = made.config["options"]
        assert options["heads"] == "shared"
        assert ("same" in made.config.get("head", {})) == (made.target == "wnut2016")
        assert resolve(made.method, made.config, 1).options["heads"] == "shared"


def test_wnut_2016_has_both_protocols_and_the_oracle_is_a_column_of_its_own() -> None:
    table = get_table("datnet-table2")
    found = {(c.target, c.train_on_dev) for c in table.cells((1,)) if c.target == "wnut2016"}
    assert found == {("wnut2016", True), ("wnut2016", False)}
    assert all(c.config["options"]["test_oracle"] for c in table.cells((1,)))
    assert "wnut2016 (train + dev) (test-oracle)" in table.layout()[1]
    assert "test_oracle" not in cell("wnut2016", DAT_F, shots=10).config["options"]
    assert set(NAMES.values()) == set(table.layout()[0])


def test_the_schedule_grows_with_the_target() -> None:
    def steps(*args: object) -> int:
        made = schedule(*args, False)  # type: ignore[arg-type]
        return int(made["train"]["epochs"] * made["options"]["epoch_steps"])

    spanish = [steps("conll2002_es", None, r) for r in (0.05, 0.1, 0.2, 0.4, 0.6, None)]
    assert spanish == sorted(spanish)
    assert spanish[-1] == 1500
    assert steps("wnut2016", 10, None) < steps("wnut2016", 1000, None) < steps("wnut2016", None, None)


def test_what_the_adversary_does_is_read_from_the_log(tmp_path: Path) -> None:
    table = get_table("datnet-adversary")
    log = [
        {"phase": "train", "epoch": e, "adversary_accuracy": 0.5 + e / 100, "adversary_gradient": e / 1000}
        for e in range(1, 7)
    ]
    for made in table.cells((1,)):
        assert made.keep_log
        finish(tmp_path, made, {"test": {"f1": 0.25}, "log": log}, np.ones((4, 3)))
    shown = collect(table, store(tmp_path), (1,))
    row = "conll2002_es: α = 0.1"
    found = [shown[row, part].scores[0] for part in table.parts]
    assert found == pytest.approx([51, 54, 56, 1, 4, 6, 25])
