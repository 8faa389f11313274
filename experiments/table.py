"""What a table or figure of a paper is here: cells, where each is shown, and what the paper printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from experiments.cells import Cell

Place = tuple[str, str]  # row, column


def by_target(cell: Cell) -> Place:
    return cell.name, cell.target


def by_ratio(cell: Cell) -> Place:
    return cell.name, f"{cell.ratio or 1.0:g}"


def by_shots(cell: Cell) -> Place:
    return cell.name, str(cell.shots)


def by_parts(cell: Cell) -> Place:
    """The parts of the table are all its columns."""
    return cell.name, ""


def on_test(metrics: Mapping[str, Any], part: str) -> float:
    return float(metrics["test"]["f1"])


def on_dev(metrics: Mapping[str, Any], part: str) -> float:
    """For tables that choose among settings."""
    return float(metrics["dev"]["f1"])


def on_type(metrics: Mapping[str, Any], part: str) -> float:
    """F1 of the type that the part names; one that was never found has none."""
    return float(metrics["test"]["by_type"].get(part, {}).get("f1", 0.0))


def at_epoch(metrics: Mapping[str, Any], epoch: int) -> Mapping[str, Any]:
    """The last entry of the training log up to an epoch."""
    return dict([e for e in metrics["log"] if e["phase"] == "train" and e["epoch"] <= epoch][-1])


@dataclass(frozen=True)
class Table:
    """One table or figure.

    Args:
        grid: its cells for one seed, whichever.
        place: row and column under which a cell is shown.
        published: what the paper printed, by (row, column).
        average: whether a column with the mean over all columns is shown.
        ours: the row that every other one is tested against.
        parts: columns that one run fills, each behind the column of its place; ``value`` reads them.
        value: what a table shows of a run's metrics, given the part, as a fraction of 100.
        best: whether the best seed is shown too, because the paper prints best runs.
        unequal: why its rows differ in updates, if they do.
        bound: for curves over shares of labels, runs with all labels, one per target, whose score is to be reached.
    """

    name: str
    title: str
    grid: Sequence[Cell]
    place: Callable[[Cell], Place] = by_target
    published: Mapping[Place, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    average: bool = False
    ours: str = ""
    seeds: tuple[int, ...] = (1, 2, 3)
    parts: tuple[str, ...] = ("",)
    value: Callable[[Mapping[str, Any], str], float] = on_test
    best: bool = False
    unequal: str = ""
    bound: Sequence[Cell] = ()

    @property
    def paper(self) -> str:
        """The folder of the paper: names of tables begin with it."""
        return self.name.partition("-")[0]

    def cells(self, seeds: Sequence[int]) -> list[Cell]:
        """Seed by seed and row by row, so that a grid that is cut short has whole rows."""
        return [replace(cell, table=self.name, seed=seed) for seed in seeds for cell in self.grid]

    def bounds(self, seeds: Sequence[int]) -> list[Cell]:
        return [replace(cell, seed=seed) for seed in seeds for cell in self.bound]

    def layout(self) -> tuple[list[str], list[str]]:
        """Rows and columns in the order of the cells."""
        places = [p for cell in self.grid for p in self.places(cell)]
        return list(dict.fromkeys(r for r, _ in places)), list(dict.fromkeys(c for _, c in places))

    def places(self, cell: Cell) -> list[Place]:
        """Where a cell is shown, part by part."""
        row, column = self.place(cell)
        return [(row, f"{column} {part}".strip()) for part in self.parts]


def entry(
    method: str, target: str, sources: tuple[str, ...] = (), config: Mapping[str, Any] | None = None, **more: Any
) -> Cell:
    """A cell of a grid, which has its table and seed from there."""
    return Cell("", method, target, sources, 0, config or {}, **more)


def published_grid(rows: Mapping[str, Sequence[float | None]], columns: Sequence[str]) -> dict[Place, float]:
    """Printed numbers by row and column; None: not printed."""
    return {
        (row, column): value
        for row, values in rows.items()
        for column, value in zip(columns, values, strict=False)
        if value is not None
    }
