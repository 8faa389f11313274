from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_results import finish, store

from experiments.cells import Cell
from experiments.label_efficiency import reached
from experiments.show import view
from experiments.table import Table, entry


@pytest.mark.parametrize(
    ("curve", "bound", "share"),
    [
        ([(0.1, 60), (0.5, 70), (1, 69)], 50, 0.1),
        ([(0.1, 60), (0.5, 70), (1, 69)], 65, 0.3),
        ([(0.1, 60), (0.5, 58), (1, 68)], 63, 0.75),
        ([(0.1, 60), (0.5, 70), (1, 69)], 71, None),
    ],
)
def test_where_a_curve_reaches_a_bound(curve: list[tuple[float, float]], bound: float, share: float | None) -> None:
    assert reached(curve, bound) == pytest.approx(share)


def test_only_seeds_that_curve_and_bound_both_have_are_compared(tmp_path: Path) -> None:
    curve = [entry("ours", t, ratio=r) for t in ("re3d", "wikigold", "wnut2017") for r in (0.1, 0.5, None)]
    bound = [entry("target_only", t) for t in ("re3d", "wikigold")]
    table = Table("t", "", curve, lambda c: (c.target, f"{c.ratio or 1.0:g}"), bound=bound)

    def write(cell: Cell, f1: float) -> None:
        finish(tmp_path, cell, {"test": {"f1": f1}}, np.ones((3, 3), int))

    for cell in table.cells((1, 2)):
        if cell.target != "wnut2017" or cell.ratio:  # a row with a gap is passed over
            write(cell, {0.1: 0.4, 0.5: 0.6, None: 0.7}[cell.ratio] + (cell.seed - 1) / 10)
    for cell in table.bounds((1,)):
        write(cell, 0.5 if cell.target == "re3d" else 0.9)
    assert view(table, store(tmp_path)).run_notes[-1] == (
        "Share of labels at which it reaches In-Domain with all of them: re3d 30%, wikigold nowhere; 30% on average "
        "where it does."
    )
