"""What a table or figure of a paper is here: cells, where each is shown, and what the paper printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.cells import Cell


@dataclass(frozen=True)
class Table:
    """One table or figure.

    Args:
        cells: the runs, given the seeds.
        place: row and column under which a cell is shown.
        published: what the paper printed, by (row, column).
        average: whether a column with the mean over all columns is shown.
        ours: the row that every other one is tested against.
        parts: columns that one run fills, each behind the column of its place; ``value`` reads them.
        value: what a table shows of a run's metrics, given the part, as a fraction of 100.
        best: whether the best seed is shown too, because the paper prints best runs.
        bound: for curves over shares of labels, runs with all labels, one a target, whose score is to be reached.
    """

    name: str
    title: str
    cells: Callable[[Sequence[int]], list[Cell]]
    place: Callable[[Cell], tuple[str, str]]
    published: Mapping[tuple[str, str], float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    average: bool = True
    ours: str = ""
    seeds: tuple[int, ...] = (1, 2, 3)
    parts: tuple[str, ...] = ("",)
    value: Callable[[Mapping[str, Any], str], float] = lambda metrics, part: metrics["test"]["f1"]
    best: bool = False
    bound: Callable[[Sequence[int]], list[Cell]] | None = None

    @property
    def paper(self) -> str:
        """The folder of the paper: names of tables begin with it."""
        return self.name.partition("-")[0]

    def layout(self) -> tuple[list[str], list[str]]:
        """Rows and columns in the order of the cells."""
        places = [p for cell in self.cells(self.seeds[:1]) for p in self.places(cell)]
        return list(dict.fromkeys(r for r, _ in places)), list(dict.fromkeys(c for _, c in places))

    def places(self, cell: Cell) -> list[tuple[str, str]]:
        """Where a cell is shown, part by part."""
        row, column = self.place(cell)
        return [(row, f"{column} {part}".strip()) for part in self.parts]


def on_dev(metrics: Mapping[str, Any], part: str) -> float:
    """What tables show that choose among settings."""
    return float(metrics["dev"]["f1"])
