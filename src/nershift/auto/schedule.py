"""Tasks on the places of a pool, against a clock: nothing is done twice, nothing begun that would end too late."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from nershift.auto.costs import Cost, Speed
from nershift.auto.jobs import Job
from nershift.auto.pool import Answer, Pool
from nershift.auto.recipe import Recipe

_STEP = 0.5  # seconds between looks at the clock


class Clock:
    """Time since a fit began; a fit that was interrupted goes on counting.

    Args:
        spent: seconds that earlier calls have used.
    """

    def __init__(self, seconds: float, spent: float = 0.0) -> None:
        self.seconds, self._began = seconds, time.monotonic() - spent

    @property
    def now(self) -> float:
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        return self.seconds - self.now


@dataclass
class Task:
    """A job, what it should take, and by when it must have ended.

    Attributes:
        until: seconds on the clock; None: it is done whatever the time.
        then: called with its answer, a failure included.
    """

    job: Job
    recipe: Recipe
    seconds: Callable[[], float]
    until: Callable[[], float] | None = None
    then: Callable[[Answer], None] = lambda answer: None
    began: float = 0.0
    expected: float = 0.0
    again: bool = False  # it is done a second time, since the GPU failed


class Desk:
    """Hands tasks to a pool.

    Args:
        speed: corrected by every finished job.
    """

    def __init__(self, pool: Pool, clock: Clock, speed: Speed) -> None:
        self.pool, self.clock, self.speed = pool, clock, speed
        self.waiting: list[Task] = []
        self.running: dict[str, Task] = {}
        self.done: set[str] = set()
        self.cut: list[str] = []  # jobs that the clock kept from beginning or ending
        self._asked: set[str] = set()

    def add(self, task: Task) -> None:
        """Do this when a place is free; a job that another task has asked for already is done once."""
        if task.job.name in self._asked:
            return
        self._asked.add(task.job.name)
        if task.job.finished:
            self.done.add(task.job.name)
            task.then(Answer(task.job))
        else:
            self.waiting.append(task)

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.running)

    def step(self) -> None:
        """Start what can start, wait a moment, and pass on what has ended."""
        self._start()
        if not self.running:
            self._give_up()
            return
        for answer in self.pool.wait(_STEP):
            self._ended(answer)
        late = [n for n, t in self.running.items() if t.until is not None and self.clock.now > t.until()]
        self.pool.drop(late)
        for name in late:
            self._cut(self.running.pop(name))

    def seconds_at(self, name: str) -> float:
        """How long a job has been running; 0: it is not."""
        return self.clock.now - self.running[name].began if name in self.running else 0.0

    def drop(self, names: set[str]) -> None:
        """Forget these jobs, running or not."""
        self.waiting = [t for t in self.waiting if t.job.name not in names]
        self.pool.drop([name for name in self.running if name in names])
        self.running = {name: t for name, t in self.running.items() if name not in names}
        self._asked -= names

    def _start(self) -> None:
        for task in list(self.waiting):
            if not self.pool.free():
                return
            if not self._has_start(task.job):
                continue
            expected = task.seconds()
            if task.until is not None and self.clock.now + expected > task.until():
                self.waiting.remove(task)
                self._cut(task)
                continue
            self.waiting.remove(task)
            task.began, task.expected = self.clock.now, expected
            self.running[task.job.name] = task
            self.pool.start(task.job)

    def _cut(self, task: Task) -> None:
        self.cut.append(task.job.name)
        self._asked.discard(task.job.name)
        task.then(Answer(task.job, failed="there was no time for it"))

    def _give_up(self) -> None:
        """Nothing runs: what still waits, waits for something that will never be."""
        for task in list(self.waiting):
            if not self._has_start(task.job):
                self.waiting.remove(task)
                self._cut(task)

    def _has_start(self, job: Job) -> bool:
        """Is what it starts from there: the work of another job, or a tagger from elsewhere?"""
        return not job.start or job.start in self.done or Path(job.start).is_absolute()

    def _ended(self, answer: Answer) -> None:
        task = self.running.pop(answer.job.name, None)
        if task is None:
            return
        if answer.device_lost and not task.again:
            task.again = True
            self.waiting.insert(0, task)
            return
        if answer.failed:
            self._failed_start(task)
        else:
            self.done.add(answer.job.name)
            if task.expected and task.job.does != "probe":
                self.speed.learn(task.recipe, task.expected, answer.seconds)
        task.then(answer)

    def _failed_start(self, task: Task) -> None:
        """A method that cannot learn from the sources alone learns from all at once."""
        if task.job.does != "pretrain":
            return
        for other in self.waiting:
            if other.job.start == task.job.name:
                other.job = replace(other.job, start="")


def seconds_of(job: Job, cost: Cost) -> float:
    """What a job should take."""
    if job.does == "pretrain":
        return cost.pretrain
    return cost.train if job.start else cost.alone
