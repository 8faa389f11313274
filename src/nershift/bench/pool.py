"""Many small runs at once on one GPU or all cores: workers that live as long as the grid and share nothing."""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from nershift.bench.cells import Cell
from nershift.storage import write_text

TRIES = 2


@dataclass
class Job:
    """A pre-training (``pretrain``) or a cell, which may wait for one."""

    key: str
    cell: Cell
    pretrain: bool = False
    needs: str | None = None
    tries: int = 0


@dataclass
class Outcome:
    done: int = 0
    failed: list[str] = field(default_factory=list)
    left: int = 0  # not started, or stopped by the time limit


def plan(cells: Sequence[Cell], results: Path) -> list[Job]:
    """The jobs that are still to do: shared pre-trainings once, and first."""
    missing = {c.key: c for c in cells if not c.path(results).exists()}
    jobs: dict[str, Job] = {}
    for cell in missing.values():
        if cell.pretraining:
            jobs.setdefault(cell.pretraining, Job(cell.pretraining, cell, pretrain=True))
    for cell in missing.values():
        jobs[cell.key] = Job(cell.key, cell, needs=cell.pretraining)
    return list(jobs.values())


def workers_that_fit(asked: int | None, gib_each: float = 2.5) -> int:
    """As many as were asked for, or one a core, as far as memory goes."""
    count = asked or os.cpu_count() or 1
    if torch.cuda.is_available():
        free = torch.cuda.mem_get_info()[0] / 2**30
        count = min(count, max(1, int(free / gib_each)))
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return max(1, min(count, int(pages / gib_each)))


def run_grid(
    cells: Sequence[Cell],
    results: Path,
    work: Path,
    *,
    workers: int | None = None,
    minutes: float = 0,
    quiet: bool = False,
) -> Outcome:
    """Run every cell that has no result yet; a failing cell is tried twice, recorded and does not stop the rest."""
    jobs = plan(cells, results)
    outcome = Outcome(done=len({c.key for c in cells}) - sum(not j.pretrain for j in jobs))
    if not jobs:
        return outcome
    count = min(workers_that_fit(workers), len(jobs))
    deadline = time.monotonic() + 60 * minutes if minutes else float("inf")
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=quiet,
    )
    with bar, _Workers(count, results, work) as pool:
        task = bar.add_task(f"{count} at once", total=len(jobs))
        waiting, finished, broken = list(jobs), set[str](), set[str]()
        while waiting or pool.busy:
            for worker in pool.idle():
                job = next((j for j in waiting if j.needs is None or j.needs in finished), None)
                if job is None:
                    break
                waiting.remove(job)
                pool.start(worker, job)
            for job, error in pool.poll():
                if error is None:
                    finished.add(job.key)
                    outcome.done += not job.pretrain
                    bar.advance(task)
                elif job.tries + 1 < TRIES:
                    job.tries += 1
                    waiting.append(job)
                else:
                    broken.add(job.key)
                    outcome.failed.append(
                        f"{job.cell.target}/{job.cell.name}/s{job.cell.seed}: {error.splitlines()[-1]}"
                    )
                    _record(results, job, error)
                    bar.advance(task)
            waiting = [j for j in waiting if j.needs not in broken]
            if time.monotonic() > deadline:
                outcome.left = len(waiting) + len(pool.busy)
                break
    return outcome


def _record(results: Path, job: Job, error: str) -> None:
    path = results / "failed" / f"{job.key}.json"
    write_text(
        path, json.dumps({"spec": job.cell.spec(), "pretrain": job.pretrain, "error": error}, indent=1)
    )


class _Workers:
    """Processes that take one job at a time; one that dies is replaced and its job counted as failed."""

    def __init__(self, count: int, results: Path, work: Path) -> None:
        self.context = multiprocessing.get_context("spawn")
        self.count, self.arguments = count, (results, work)
        self.busy: dict[int, Job] = {}
        self.inbox: Any = self.context.Queue()

    def __enter__(self) -> _Workers:
        self.queues = [self.context.Queue() for _ in range(self.count)]
        self.processes = [self._spawn(i) for i in range(self.count)]
        return self

    def _spawn(self, i: int) -> Any:
        threads = max(1, (os.cpu_count() or 1) // self.count)
        process = self.context.Process(
            target=_work, args=(i, self.queues[i], self.inbox, threads, *self.arguments), daemon=True
        )
        process.start()
        return process

    def __exit__(self, *error: object) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()

    def idle(self) -> list[int]:
        return [i for i in range(self.count) if i not in self.busy]

    def start(self, worker: int, job: Job) -> None:
        self.busy[worker] = job
        self.queues[worker].put((job.cell, job.pretrain))

    def poll(self, seconds: float = 0.2) -> list[tuple[Job, str | None]]:
        """Jobs that ended since the last call, with their error if they failed."""
        out = []
        try:
            worker, error = self.inbox.get(timeout=seconds)
            out.append((self.busy.pop(worker), error))
        except queue.Empty:
            pass
        for i, process in enumerate(self.processes):
            if not process.is_alive():
                if i in self.busy:
                    out.append((self.busy.pop(i), f"the worker died with exit code {process.exitcode}"))
                self.queues[i] = self.context.Queue()
                self.processes[i] = self._spawn(i)
        return out


def _work(number: int, jobs: Any, inbox: Any, threads: int, results: Path, work: Path) -> None:
    from nershift.bench.jobs import origin, run_cell, run_pretraining

    origin()  # now: files may change while the grid runs, what this process has loaded does not
    torch.set_num_threads(threads)
    while True:
        cell, pretrain = jobs.get()
        try:
            if pretrain:
                run_pretraining(cell, work)
            else:
                run_cell(cell, work, results)
            inbox.put((number, None))
        except Exception:
            inbox.put((number, traceback.format_exc().strip()))
