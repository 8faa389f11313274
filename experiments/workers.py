"""Processes of this machine that live as long as a grid and take one job at a time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from experiments.jobs import Failure, origin, run_job
from experiments.plan import Job

_NO_FORK = "no CUDA in a forked process"  # a worker's answer if an import touched the GPU before the fork
_GRACE = 10.0  # seconds for a checkpoint when the grid is stopped


@dataclass
class _Worker:
    process: Any
    line: Any  # to and from it


class Workers:
    """Processes that take one job at a time. A dead one is replaced when needed; its job counts as failed.

    Where the system allows, all are forked from one process that has imported everything and computed nothing:
    a worker is there at once, and the pages of the libraries are shared.
    """

    def __init__(self, count: int, work: Path) -> None:
        self.forks = "forkserver" in multiprocessing.get_all_start_methods()
        self.context: Any = multiprocessing.get_context("forkserver" if self.forks else "spawn")
        if self.forks:
            # torch imports its compiler with the first optimiser, which takes as long as all other imports.
            self.context.set_forkserver_preload(["experiments.jobs", "torch._dynamo"])
        self.count, self.work = count, work
        self.provenance = {**origin(), "at_once": count}
        self.busy: dict[int, Job] = {}
        self.workers: dict[int, _Worker] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for i in self.busy:
            self.workers[i].process.terminate()
        until = time.monotonic() + _GRACE
        for i in self.busy:
            self.workers[i].process.join(max(0.0, until - time.monotonic()))
        for i in list(self.workers):
            self._end(i)

    def _end(self, number: int) -> None:
        worker = self.workers.pop(number)
        worker.process.kill()
        worker.process.join()
        worker.line.close()

    def idle(self) -> list[int]:
        return [i for i in range(self.count) if i not in self.busy]

    def end(self, number: int) -> None:
        """End the job of a worker that does not end by itself, and the worker with it."""
        del self.busy[number]
        self._end(number)

    def trim(self) -> None:
        """End idle workers to free their memory."""
        for i in self.idle():
            if i in self.workers:
                self._end(i)

    def start(self, number: int, job: Job) -> None:
        if number not in self.workers or not self.workers[number].process.is_alive():
            if number in self.workers:
                self._end(number)
            self.workers[number] = self._spawn()
        self.busy[number] = job
        self.workers[number].line.send(job)

    def _spawn(self) -> _Worker:
        ours, theirs = self.context.Pipe()
        asked = os.environ.get("OMP_NUM_THREADS", "")
        threads = int(asked) if asked.isdigit() else (os.cpu_count() or 1) // self.count
        process = self.context.Process(
            target=_work,
            args=(theirs, self.forks, threads, dict(os.environ), self.provenance, self.work),
            daemon=True,
        )
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def poll(self, seconds: float = 1.0) -> list[tuple[Job, Failure | None]]:
        """Jobs that ended since the last call, with what went wrong; waits up to ``seconds`` for the first."""
        at = {i: self.workers[i] for i in self.busy}
        wait([end for w in at.values() for end in (w.line, w.process.sentinel)], seconds)
        ended: list[tuple[Job, Failure | None]] = []
        for i, worker in at.items():
            alive = worker.process.is_alive()  # checked first: the last answer of a dead worker can still be read
            try:
                if worker.line.poll():
                    failure = worker.line.recv()
                elif alive:
                    continue
                else:
                    failure = _death(worker.process.exitcode)
            except (EOFError, OSError):
                worker.process.join()
                failure = _death(worker.process.exitcode)
            if failure == _NO_FORK:
                self.context, self.forks = multiprocessing.get_context("spawn"), False
                self._end(i)
                self.start(i, self.busy[i])
                continue
            ended.append((self.busy.pop(i), failure))
        return ended


def _death(code: int | None) -> Failure:
    killed = code == -signal.SIGKILL
    why = "was killed, as happens when memory runs out" if killed else f"died with exit code {code}"
    return Failure(f"the worker {why}", f"the worker {why}", memory=killed)


def _work(
    line: Any,
    forked: bool,
    threads: int,
    environment: Mapping[str, str],
    provenance: Mapping[str, Any],
    work: Path,
) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the grid, which then ends its workers
    os.environ.clear()
    os.environ.update(environment)  # the process that all are forked from may have an older one
    torch.set_num_threads(max(1, threads))
    while True:
        try:
            job = line.recv()
        except EOFError:  # the grid is gone
            return
        if forked and not _cuda_answers():
            line.send(_NO_FORK)
            return
        failure = run_job(job, work, provenance)
        try:
            line.send(failure)
        except BrokenPipeError:  # gone by now, but the result is written
            return
        if failure is not None and failure.fatal:
            return


def _cuda_answers() -> bool:
    import torch

    try:
        if torch.cuda.is_available():
            torch.cuda.init()
    except RuntimeError as error:
        return "fork" not in str(error)
    return True
