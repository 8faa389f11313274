"""Tables that claim equal budgets have them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from experiments.cells import Cell
from experiments.costs import config_of, estimate
from experiments.jobs import smaller
from experiments.papers import TABLES
from nershift.methods import METHODS
from nershift.run import resolve

EQUAL = [
    "metaner-fair3", "metaner-fair2", "metaner-curves", "metaner-curves2", "metaner-control", "crosslm-fair3",
    "crosslm-fair3-slow", "crosslm-rates", "laner-fair3", "laner-fig4-updates", "few-rows", "few-rows-dev",
]  # fmt: skip
PURPOSE = "finetune, four times the source updates"


def _updates(cell: Cell) -> int:
    return estimate(replace(cell, joint=True)).steps


@pytest.mark.parametrize("name", EQUAL)
def test_every_row_of_a_column_has_as_many_updates(name: str) -> None:
    columns = defaultdict(set)
    for cell in TABLES[name].cells((1,)):
        columns[TABLES[name].place(cell)[1]].add(_updates(cell))
    assert all(len(updates) == 1 for updates in columns.values()), dict(columns)
    assert len({u for updates in columns.values() for u in updates}) == 1
    assert not TABLES[name].unequal


@pytest.mark.parametrize("shots", [10, 20, 50, 100])
def test_few_label_controls_differ_only_where_they_say_so(shots: int) -> None:
    table = TABLES[f"metaner-control-{shots}"]
    updates = {cell.name: _updates(cell) for cell in table.cells((1,))}
    assert updates.pop(PURPOSE) == 5000
    assert set(updates.values()) == {2000}
    assert len({c.target for c in table.grid}) == 8
    assert all("vectors" not in str(c.config) for c in table.grid)


@pytest.mark.parametrize("name", [n for n in EQUAL if n.startswith(("metaner", "few"))])
def test_one_optimiser_rate_and_selection(name: str) -> None:
    seen = set()
    for cell in TABLES[name].cells((1,)):
        config = config_of(cell)
        stages = [config.train] if METHODS[cell.method].uses_target_labels else []
        stages += [config.pretrain] if cell.pretraining else []
        seen |= {(s.optimizer, s.lr, s.schedule, s.weight_decay, s.clip, s.patience, s.epochs) for s in stages}
        assert config.preset == "default"
    assert len(seen) == 1
    assert len({config_of(cell).selection for cell in TABLES[name].grid}) == 1


def test_one_optimiser_in_crosslm() -> None:
    for rate, name in ((3e-3, "crosslm-fair3"), (1e-3, "crosslm-fair3-slow")):
        for cell in TABLES[name].cells((1,)):
            for stage in (config_of(cell).train, config_of(cell).pretrain):
                assert (stage.optimizer, stage.lr, stage.schedule) == ("adam", rate, "constant")


def test_new_tables_share_no_run_with_earlier_ones() -> None:
    earlier = {c.key for n in ("metaner-table3", "metaner-table2", "crosslm-table3") for c in TABLES[n].cells((1,))}
    assert not any(c.key in earlier for name in EQUAL for c in TABLES[name].cells((1,)))
    assert not earlier & {c.key for name in TABLES if name.startswith("few-") for c in TABLES[name].cells((1,))}


def test_maml_learns_from_as_many_batches_as_algorithm_1() -> None:
    rows = {c.name: config_of(c).pretrain for c in TABLES["metaner-control"].grid}
    assert (rows["metaner"].accumulate, rows["metaner, MAML update"].accumulate) == (1, 3)


def test_no_target_of_a_few_label_table_is_asked_for_more_sentences_than_it_has() -> None:
    for name in (n for n in TABLES if n.startswith("few-")):
        for cell in TABLES[name].cells((1,)):
            whole = estimate(replace(cell, shots=10**6))  # all there are
            assert whole.steps
            assert cell.shots is not None
            assert cell.target not in cell.sources
    places = {c.target for c in TABLES["few-which-1000"].grid}
    assert {"mit_movie", "bionlp13cg", "wnut2016"} <= places
    assert "crossner_music" not in places


def test_choices_are_made_and_judged_on_different_targets() -> None:
    for name in ("few-heads", "few-rows"):
        made, judged = ({c.target for c in TABLES[n].grid} for n in (f"{name}-dev", name))
        assert len(made) == len(judged) == 4
        assert not made & judged


def test_halved_batches_leave_a_length_in_updates_alone() -> None:
    cell = Cell("t", "finetune", "wikigold", ("conll2003_en",), 1, {"preset": "default", "train": {"updates": 70}})
    before, after = config_of(cell), resolve("finetune", smaller(cell, 1))
    assert before.train.batch_size == 16  # 1,142 sentences
    assert (after.train.updates, after.train.batch_size, after.train.accumulate) == (70, 8, 2)
    assert after.pretrain.epochs == 0
