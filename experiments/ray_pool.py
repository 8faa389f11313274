"""The jobs of a grid as tasks of a Ray cluster."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.jobs import Failure, origin, run_job
from experiments.plan import Job
from nershift.errors import SetupError
from nershift.tagger.ray_cluster import connect

_ENVIRONMENT = ("NERSHIFT_", "PYTHONPATH", "OMP_NUM_THREADS")


class RayPool:
    """As many tasks at a time as places; every node sees the work folder under the same path.

    What a lost worker was doing is started again from its last checkpoint, like any job that failed.

    Args:
        address: of a cluster (``auto``: the one of this machine); ``local`` starts one that ends with the grid.
    """

    def __init__(self, count: int | None, work: Path, address: str) -> None:
        kept = {k: v for k, v in os.environ.items() if k.startswith(_ENVIRONMENT)}
        self.ray, self.leave = connect(address, count, kept)
        resources = self.ray.cluster_resources()
        self.count = count or max(1, int(resources.get("CPU", 1)))
        self.busy: dict[int, Job] = {}
        self.tasks: dict[Any, int] = {}
        work.mkdir(parents=True, exist_ok=True)
        self.mark = work / f".grid-{uuid.uuid4().hex}"
        self.mark.touch()
        provenance = {"commit": origin()["commit"], "at_once": self.count}
        gpus = min(1.0, resources.get("GPU", 0.0) / self.count)
        # A worker that used a GPU would end after its task; it has given the memory back, and can be used again.
        remote = self.ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0, max_calls=1000)(_run)
        self.begin = lambda job: remote.remote(job, work.resolve(), self.mark.name, provenance)

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *error: object) -> None:
        for task in self.tasks:
            self.ray.cancel(task, force=True)
        self.mark.unlink(missing_ok=True)
        self.leave()

    def idle(self) -> list[int]:
        return [i for i in range(self.count) if i not in self.busy]

    def start(self, number: int, job: Job) -> None:
        self.busy[number] = job
        self.tasks[self.begin(job)] = number

    def end(self, number: int) -> None:
        """End the job of a place; what it has written stays."""
        (task,) = (task for task, place in self.tasks.items() if place == number)
        self.ray.cancel(task, force=True)
        del self.tasks[task], self.busy[number]

    def trim(self) -> None:
        """Idle workers are Ray's to end."""

    def poll(self, seconds: float = 1.0) -> list[tuple[Job, Failure | None]]:
        ready, _ = self.ray.wait(list(self.tasks), num_returns=1, timeout=seconds)
        return [(self.busy.pop(self.tasks.pop(task)), self._answer(task)) for task in ready]

    def _answer(self, task: Any) -> Failure | None:
        errors = self.ray.exceptions
        try:
            failure: Failure | None = self.ray.get(task)
        except errors.RayTaskError as error:  # not of the run, which reports its own
            raise SetupError(str(error.cause), place="--ray") from None
        except errors.RayError as error:
            first = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
            return Failure(str(error), first, memory=isinstance(error, errors.OutOfMemoryError))
        return failure


def _run(job: Job, work: Path, mark: str, provenance: Mapping[str, Any]) -> Failure | None:
    import torch

    if not (work / mark).exists():
        raise SetupError(
            f"node {os.uname().nodename} does not see the folder of the grid",
            place=str(work),
            expected="a folder that all nodes share",
            fix="give --work on a shared file system",
        )
    torch.set_num_threads(1)
    return run_job(job, work, {**origin(), **provenance})
