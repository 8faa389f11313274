"""The jobs that a grid has left, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from experiments.cells import Cell
from experiments.costs import Rates, gpu_memory
from experiments.store import ResultStore

By = Literal["table", "seed"]


@dataclass
class Job:
    """A pre-training (``pretrain``) or a cell, which may wait for one and for its teachers.

    ``keep`` keeps the model of a cell, for those that it teaches. ``halved`` says how often its batches were halved
    after it ran out of memory on its own.
    """

    key: str
    cell: Cell
    pretrain: bool = False
    needs: tuple[str, ...] = ()
    keep: bool = False
    seconds: float = 0.0  # estimated
    gib: float = 0.0  # GPU memory it may need
    tries: int = 0
    crowded: bool = False  # ran out of memory beside others
    alone: bool = False  # did so again
    halved: int = 0

    @property
    def name(self) -> str:
        what = "pre-training for " if self.pretrain else ""
        return f"{what}{self.cell.target}/{self.cell.name}/s{self.cell.seed}"


def model_folder(work: Path, cell: Cell) -> Path:
    """Where the model of a teacher is kept."""
    return work / f"model-{cell.key}"


def plan(cells: Sequence[Cell], store: ResultStore, *, by: By = "table", rates: Rates | None = None) -> list[Job]:
    """The jobs still to do; a shared pre-training comes once. A teacher without its model here runs, again if need be.

    Tables come in the order of the cells, each seed by seed (``by="seed"``: the first seed of all tables, then the
    second). Within a seed of a table, what other jobs wait for goes first, then what takes longest, so that all
    workers end together.
    """
    rates = rates or Rates.learn(store)
    missing: dict[str, Cell] = {}
    for cell in cells:
        if cell not in store:
            missing.setdefault(cell.key, cell)
    teachers = {
        t.key: t for cell in missing.values() for t in cell.teachers if not model_folder(store.work, t).exists()
    }
    missing = teachers | missing
    jobs: dict[str, Job] = {}
    for cell in missing.values():
        needs = [*filter(None, [cell.pretraining]), *(t.key for t in cell.teachers if t.key in teachers)]
        seconds, gib = rates(cell).seconds, gpu_memory(cell)
        jobs[cell.key] = Job(cell.key, cell, needs=tuple(needs), keep=cell.key in teachers, seconds=seconds, gib=gib)
        if cell.pretraining and cell.pretraining not in jobs:
            seconds = rates(cell, pretrain=True).seconds
            gib = gpu_memory(cell, pretrain=True)
            jobs[cell.pretraining] = Job(cell.pretraining, cell, pretrain=True, seconds=seconds, gib=gib)
    order = {name: i for i, name in enumerate(dict.fromkeys(c.table for c in missing.values()))}

    def place(job: Job) -> tuple[int, int, bool, float]:
        table, seed = order[job.cell.table], job.cell.seed
        return *((seed, table) if by == "seed" else (table, seed)), not (job.pretrain or job.keep), -job.seconds

    return sorted(jobs.values(), key=place)
