"""How far the confidences of all runs can be trusted, before and after their temperature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from experiments.cells import Cell
from nershift.reports.content import ReportTable, percent


def calibration_table(runs: Iterable[tuple[Cell, Mapping[str, Any]]]) -> ReportTable | None:
    """Calibration error on test by target, over all runs that fitted a temperature on dev."""
    by_target: dict[str, list[tuple[float, float, float]]] = {}
    for cell, metrics in runs:
        kept = metrics.get("calibration", {})
        test = kept.get("test", {})
        if "temperature" in kept and {"before", "after"} <= set(test):
            row = (float(kept["temperature"]), test["before"]["ece"], test["after"]["ece"])
            by_target.setdefault(cell.target, []).append(row)
    if not by_target:
        return None
    rows = []
    for target, mine in (*sorted(by_target.items()), ("all", [row for some in by_target.values() for row in some])):
        temperature, before, after = np.mean(mine, 0)
        better = sum(b > a for _, b, a in mine)
        rows.append((target, f"{temperature:.2f}", percent(before), percent(after), f"{better} of {len(mine)}"))
    note = "Expected calibration error of predicted entities on test; the temperature is fitted on dev. Means of runs."
    headers = ("target", "temperature", "ECE as trained", "ECE as kept", "lower")
    return ReportTable("calibration", "Calibration of confidences", headers, tuple(rows), note=note)
