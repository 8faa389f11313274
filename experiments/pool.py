"""Run many small jobs at once: which is next, how failures are retried, the progress bar."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from experiments.cells import Cell
from experiments.jobs import Failure
from experiments.plan import By, Job, plan
from experiments.store import ResultStore
from experiments.workers import Workers
from nershift.console import make_console
from nershift.storage import write_text

TRIES = 2
MEMORY = Path("/proc/meminfo")
JOB_MINUTES = 360.0  # after which a job hangs: the longest of the papers' runs takes a fraction of it
_MAIN_GIB = {False: 2.5, True: 4.0}  # main memory per run; True: with a transformer
HALVINGS = 3  # how often batches are halved when a job runs out of memory even alone


class Pool(Protocol):
    """Where jobs run: places that take one job at a time."""

    count: int
    busy: dict[int, Job]

    def __enter__(self) -> Pool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def idle(self) -> list[int]: ...
    def start(self, number: int, job: Job) -> None: ...
    def poll(self, seconds: float = 1.0) -> list[tuple[Job, Failure | None]]: ...
    def end(self, number: int) -> None: ...
    def trim(self) -> None: ...


MakePool = Callable[[int | None, Path], Pool]


@dataclass
class Outcome:
    """``left``: not started, or stopped by the time limit; ``smaller``: ran with halved batches."""

    done: int = 0
    failed: list[str] = field(default_factory=list)
    smaller: list[str] = field(default_factory=list)
    left: int = 0


def gpu_room() -> float:
    """Free GPU memory in GiB; infinite without a GPU."""
    import torch

    return torch.cuda.mem_get_info()[0] / 2**30 if torch.cuda.is_available() else float("inf")


def workers_that_fit(wanted: int | None, main_gib: float) -> int:
    """As many as wanted, by default one per core, within main memory."""
    count = wanted or os.cpu_count() or 1
    return max(1, min(count, int(_free_memory() / main_gib)))


def _free_memory() -> float:
    """GiB of main memory that can be had, what files are cached in included where the system says so."""
    if MEMORY.exists():
        told = next((line for line in MEMORY.read_text().splitlines() if line.startswith("MemAvailable:")), "")
        if told:
            return int(told.split()[1]) / 2**20
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def run_grid(
    cells: Sequence[Cell],
    store: ResultStore,
    *,
    workers: int | None = None,
    minutes: float = 0,
    job_minutes: float = JOB_MINUTES,
    by: By = "table",
    gpu_gib: float | None = None,
    quiet: bool = False,
    pool: MakePool | None = None,
) -> Outcome:
    """Run every cell that has no result yet.

    A failing job is tried twice, then recorded; the rest goes on. A job that runs out of memory is tried again at the
    end of the queue, then alone, then with halved batches, which its result says.

    Args:
        workers: runs at once, within memory.
        minutes: stop after this time; finished runs are kept, others get a moment to write a checkpoint.
        job_minutes: a job that takes longer hangs: it is ended and has failed, like any other.
        gpu_gib: GPU memory to count on; default: all that is free.
        pool: makes the place to run from ``workers`` and the work folder; default: processes of this machine.
    """
    jobs = plan(cells, store, by=by)
    outcome = Outcome(done=len({c.key for c in cells}) - sum(not j.pretrain for j in jobs))
    if jobs:
        deadline = time.monotonic() + 60 * minutes if minutes else float("inf")
        room = gpu_gib or (gpu_room() if pool is None else float("inf"))
        with (pool or _processes(jobs))(workers, store.work) as places, _Bar(jobs, places.count, quiet) as bar:
            _run_jobs(_Queue(jobs, room), _Timed(places, job_minutes), bar, outcome, deadline, store.work)
    store.merge()
    return outcome


def _processes(jobs: Sequence[Job]) -> MakePool:
    """As many processes of this machine as jobs and main memory allow."""
    each = max(_MAIN_GIB["transformer" in job.cell.config.get("encoder", {})] for job in jobs)
    return lambda wanted, work: Workers(min(workers_that_fit(wanted, each), len(jobs)), work)


class _Timed:
    """The places of a pool, where no job runs for longer than ``minutes``."""

    def __init__(self, places: Pool, minutes: float) -> None:
        self.places, self.minutes, self.began = places, minutes, dict[int, float]()
        self.busy, self.idle, self.trim = places.busy, places.idle, places.trim

    def start(self, number: int, job: Job) -> None:
        self.began[number] = time.monotonic()
        self.places.start(number, job)

    def poll(self) -> list[tuple[Job, Failure | None]]:
        """Jobs that ended, or were ended because they hang, with what went wrong."""
        ended, now = self.places.poll(), time.monotonic()
        for number, job in list(self.busy.items()):
            if now - self.began[number] > 60 * self.minutes:
                self.places.end(number)
                told = f"it was ended after {self.minutes:g} minutes (--job-minutes)"
                ended.append((job, Failure(told, told)))
        return ended


def _run_jobs(queue: _Queue, places: _Timed, bar: _Bar, outcome: Outcome, deadline: float, work: Path) -> None:
    while queue.waiting or places.busy:
        for number in places.idle():
            job = queue.next(places.busy.values())
            if job is None:
                break
            if job.alone:
                places.trim()
            places.start(number, job)
            if job.alone:
                break
        for job, failure in places.poll():
            if failure is None:
                queue.finished.add(job.key)
                outcome.done += not job.pretrain
                if job.halved:
                    outcome.smaller.append(f"{job.name}: batches divided by {2**job.halved}")
                bar.advance(job)
            elif not queue.again(job, failure):
                outcome.failed.append(f"{job.name}: {failure.summary}")
                _record(work, job, failure)
                bar.advance(job)
        if time.monotonic() > deadline:
            outcome.left = len(queue.waiting) + len(places.busy)
            return


class _Queue:
    """Waiting jobs in the order of the plan; jobs that need all the memory come last, one by one."""

    def __init__(self, jobs: Sequence[Job], gpu_gib: float) -> None:
        self.waiting, self.finished, self.alone_runs = list(jobs), set[str](), False
        self.gpu_gib = gpu_gib

    def next(self, busy: Collection[Job]) -> Job | None:
        """The first that is ready and fits beside ``busy`` on the GPU; when nothing runs, any fits."""
        if self.alone_runs and busy:
            return None
        self.alone_runs = False
        room = self.gpu_gib - sum(job.gib for job in busy)
        ready = [j for j in self.waiting if self.finished.issuperset(j.needs)]
        ready = [j for j in ready if j.gib <= room or not busy]
        job = next((j for j in ready if not j.alone), ready[0] if ready and not busy else None)
        if job is not None:
            self.waiting.remove(job)
            self.alone_runs = job.alone
        return job

    def again(self, job: Job, failure: Failure) -> bool:
        """Queue a failed job again, changed as its failure requires; False: it has no tries left."""
        if failure.memory and not job.crowded:
            job.crowded = True  # others may have left room by then
        elif failure.memory and not job.alone:
            job.alone = True
        elif failure.memory and job.halved < HALVINGS:
            job.halved += 1
        elif not failure.memory and job.tries + 1 < TRIES:
            job.tries += 1
        else:
            self.waiting = [j for j in self.waiting if job.key not in j.needs]
            return False
        self.waiting.append(job)
        return True


class _Bar:
    """Progress in estimated seconds, so that short and long jobs count as what they are."""

    def __init__(self, jobs: Sequence[Job], count: int, quiet: bool) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[ended]}/{task.fields[jobs]} jobs"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=make_console(stderr=True),
            disable=quiet,
        )
        expected = sum(job.seconds for job in jobs)
        self.task = self.progress.add_task(f"{count} at once", total=expected, ended=0, jobs=len(jobs))
        self.ended = 0

    def __enter__(self) -> _Bar:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def advance(self, job: Job) -> None:
        self.ended += 1
        self.progress.update(self.task, advance=job.seconds, ended=self.ended)


def _record(work: Path, job: Job, failure: Failure) -> None:
    record = {"spec": job.cell.spec(), "pretrain": job.pretrain, "error": failure.error}
    if failure.memory:
        record |= {"out_of_memory": True, "batches_divided_by": 2**job.halved}
    write_text(work / "failed" / f"{job.key}.json", json.dumps(record, indent=1))
