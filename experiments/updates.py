"""How long the runs of a table trained: updates of each stage, the best one, and who was best at the last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from experiments.cells import Cell
from experiments.costs import estimate
from experiments.scores import Runs
from experiments.table import Place, Table
from nershift.errors import ConfigError

STAGES = ("pretrain", "train")
TOLERANCE = 1.1  # by which factor rows may differ in updates before a table says so
HEADERS = (
    "pre-training: updates", "best at", "best at the last", "training: updates", "best at", "best at the last",
    "seconds a run",
)  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """A stage of one run. ``best`` is the update whose weights were kept; None: the last ones, unseen."""

    updates: int
    best: int | None = None
    planned: bool = False  # the run did not keep the number: what its settings ask for, if nothing stops it

    @property
    def best_at_last(self) -> bool:
        return self.best == self.updates


def stages_of(metrics: Mapping[str, Any], cell: Cell | None = None) -> dict[str, Stage]:
    """The stages of a run and of the pre-training that it started from. ``cell`` tells what older runs did not keep."""
    start = metrics.get("start") or {}
    phases = {**start.get("phases", {}), **metrics.get("phases", {})}
    found = {}
    for stage in STAGES:
        parts = [p for name, p in phases.items() if "steps" in p and name.split("-")[0] == stage]
        if parts:
            selected = all(p.get("dev_f1") is not None for p in parts)
            best = sum(p["best_step"] for p in parts) if selected else None
            found[stage] = Stage(sum(p["steps"] for p in parts), best)
    if "pretrain" not in found and cell is not None and metrics.get("data", {}).get("start"):
        found = {"pretrain": Stage(estimate(cell, pretrain=True).steps, planned=True), **found}
    return found


def update_rows(table: Table, shown: Mapping[Place, Runs]) -> Iterator[tuple[str, ...]]:
    """A line for each row of the table that was run: updates, best and share of runs best at the last, by stage."""
    rows, _ = table.layout()
    for row in rows:
        runs = _runs(shown, [place for place in shown if place[0] == row])
        if runs:
            texts = [text for stage in STAGES for text in _describe(_distinct(runs, stage))]
            yield row, *texts, _seconds([metrics for _, metrics in runs])


def unequal_note(table: Table, shown: Mapping[Place, Runs]) -> str:
    """Says where rows of a column differ most in updates, both stages together; empty if none do."""
    rows, columns = table.layout()
    worst, note = TOLERANCE, ""
    for column in columns:
        by_row = {row: runs for row in rows if (runs := _runs(shown, [(row, column)]))}
        totals = {row: total for row, runs in by_row.items() if (total := _total(runs))}
        factor = max(totals.values()) / min(totals.values()) if totals else 1.0
        if factor > worst:
            least, most = min(totals, key=totals.__getitem__), max(totals, key=totals.__getitem__)
            at = f" on {column}" if column else ""
            span = f"from {totals[least]:,.0f} ({least}) to {totals[most]:,.0f} ({most}){at}"
            reason = table.unequal or _reason([by_row[row][0][0] for row in totals])
            worst, note = factor, f"Rows differ in updates, {span}. {reason}"
    return note


def _reason(cells: Sequence[Cell]) -> str:
    """One cell of each row tells whether their settings asked for as many updates."""
    with suppress(ConfigError):  # a method or setting that no longer exists
        planned = [estimate(replace(cell, joint=True)).steps for cell in cells]
        if max(planned) <= TOLERANCE * min(planned):
            return "All were given as many; early stopping ended some sooner."
    return "So they are no fair comparison of methods."


def _runs(shown: Mapping[Place, Runs], places: Iterable[Place]) -> list[tuple[Cell, Mapping[str, Any]]]:
    """Each run at some places once."""
    found: dict[str, tuple[Cell, Mapping[str, Any]]] = {}
    for place in places:
        runs = shown.get(place)
        if runs is not None:
            found |= {cell.key: (cell, m) for cell, m in zip(runs.cells, runs.metrics, strict=True)}
    return list(found.values())


def _distinct(runs: Sequence[tuple[Cell, Mapping[str, Any]]], stage: str) -> list[Stage]:
    """One stage of some runs; a pre-training that several start from counts once."""
    found = {}
    for cell, metrics in runs:
        shared = metrics.get("data", {}).get("start") if stage == "pretrain" else None
        if stage in (stages := stages_of(metrics, cell)):
            found[shared or cell.key] = stages[stage]
    return list(found.values())


def _describe(stages: Sequence[Stage]) -> tuple[str, str, str]:
    """Updates, the best one and how many were best at the last, as text."""
    if not stages:
        return "", "", ""
    counts = [stage.updates for stage in stages]
    updates = f"{fmean(counts):,.0f}"
    if min(counts) < max(counts):
        updates += f" ({min(counts):,} to {max(counts):,})"
    if any(stage.planned for stage in stages):
        updates = f"at most {updates}"
    selected = [stage for stage in stages if stage.best is not None]
    if not selected:
        return updates, "not kept" if stages[0].planned else "", ""
    last = sum(stage.best_at_last for stage in selected)
    return updates, f"{fmean(stage.best or 0 for stage in selected):,.0f}", f"{last} of {len(selected)}"


def _seconds(runs: Sequence[Mapping[str, Any]]) -> str:
    """CPU seconds with pre-training where they were measured, else those on the clock."""
    cpu = [m["cpu_seconds"] + m.get("pretrain_cpu_seconds", 0) for m in runs if "cpu_seconds" in m]
    if cpu and len(cpu) == len(runs):
        return f"{fmean(cpu):,.0f} CPU"
    clock = [m["seconds"] + m.get("pretrain_seconds", 0) for m in runs if "seconds" in m]
    return f"{fmean(clock):,.0f}" if clock else ""


def _total(runs: Sequence[tuple[Cell, Mapping[str, Any]]]) -> float:
    """Mean updates of some runs, all stages together."""
    return fmean(sum(s.updates for s in stages_of(m, cell).values()) for cell, m in runs) if runs else 0.0
