"""The race on a Ray cluster: jobs are tasks, and every node sees the folder of the fit under the same path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nershift.auto.jobs import Job, run
from nershift.auto.pool import Answer
from nershift.errors import NershiftError, SetupError
from nershift.tagger.ray_cluster import connect

_ENVIRONMENT = ("NERSHIFT_", "PYTHONPATH")


class RayPool:
    """As many tasks at a time as places, of one CPU and a share of a GPU each.

    Args:
        address: of a cluster (``auto``: the one of this machine); ``local`` starts one that ends with the fit.
        count: tasks at once; 0: one per CPU of the cluster.
    """

    def __init__(self, address: str, count: int, work: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)}
        self.ray, self.leave = connect(address, count or None, kept)
        resources = self.ray.cluster_resources()
        self.places = count or max(1, int(resources.get("CPU", 1)))
        gpus = min(1.0, resources.get("GPU", 0.0) / self.places)
        self._begin = self.ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(_run)
        self._tasks: dict[Any, Job] = {}
        work.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *error: object) -> None:
        self.drop([job.name for job in self._tasks.values()])
        self.leave()

    def free(self) -> int:
        return self.places - len(self._tasks)

    def start(self, job: Job) -> None:
        self._tasks[self._begin.remote(job.to_dict())] = job

    def wait(self, seconds: float) -> list[Answer]:
        ready, _ = self.ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
        return [self._answer(self._tasks.pop(task), task) for task in ready]

    def _answer(self, job: Job, task: Any) -> Answer:
        try:
            told = self.ray.get(task)
        except self.ray.exceptions.RayError as error:
            return Answer(job, failed=f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")
        return Answer(job, told.get("seconds", 0.0), told.get("per_update", 0.0), told.get("failed", ""))

    def drop(self, jobs: Sequence[str]) -> None:
        for task in [task for task, job in self._tasks.items() if job.name in jobs]:
            self.ray.cancel(task, force=True)
            del self._tasks[task]


def _run(row: dict[str, Any]) -> dict[str, Any]:
    import torch

    job = Job.from_dict(row)
    torch.set_num_threads(1)
    try:
        if not Path(job.work).parent.is_dir():
            raise SetupError(
                f"node {os.uname().nodename} does not see the folder of the fit",
                place=job.work,
                expected="a folder that all nodes share",
                fix="give --out on a shared file system",
            )
        return run(job)
    except NershiftError as error:
        return {"failed": str(error)}
