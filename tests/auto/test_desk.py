"""Jobs on the places of a pool: what is done again, and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from nershift.auto.costs import Speed
from nershift.auto.jobs import Job
from nershift.auto.pool import Answer
from nershift.auto.recipe import Recipe
from nershift.auto.schedule import Clock, Desk, Task
from nershift.auto.worker import device_lost


class Scripted:
    """A pool of one place that gives the answers of a list."""

    places = 1

    def __init__(self, answers: Sequence[dict[str, Any]]) -> None:
        self.answers, self.started, self.job = list(answers), list[str](), None

    def free(self) -> int:
        return int(self.job is None)

    def start(self, job: Job) -> None:
        self.job = job
        self.started.append(job.name)

    def wait(self, seconds: float) -> list[Answer]:
        job, self.job = self.job, None
        return [Answer(job, **self.answers.pop(0))]

    def drop(self, jobs: Sequence[str]) -> None:
        pass


@pytest.mark.parametrize(
    ("answers", "starts", "failed"),
    [
        ([{"failed": "lost", "device_lost": True}, {}], 2, ""),
        ([{"failed": "lost", "device_lost": True}] * 2, 2, "lost"),
        ([{"failed": "no such file"}], 1, "no such file"),
    ],
)
def test_a_job_is_done_once_more_if_the_gpu_failed(answers: Any, starts: int, failed: str, tmp_path: Any) -> None:
    pool, heard = Scripted(answers), list[Answer]()
    desk = Desk(pool, Clock(60), Speed())  # type: ignore[arg-type]
    job = Job("one", "train", "target_only", {}, seed=1, work=str(tmp_path))
    desk.add(Task(job, Recipe("r", "r", "target_only"), lambda: 1.0, then=heard.append))
    while desk.busy:
        desk.step()
    assert len(pool.started) == starts
    assert [answer.failed for answer in heard] == [failed]


def test_only_errors_that_end_the_use_of_the_gpu_count_as_such() -> None:
    assert device_lost(RuntimeError("CUDA error: an illegal memory access was encountered"))
    assert not device_lost(torch.OutOfMemoryError("CUDA out of memory"))
    assert not device_lost(RuntimeError("shapes differ"))
    assert not device_lost(ValueError("CUDA error"))
