"""Workers on this machine: processes of their own, so that a crash ends one job and the clock can stop any of them."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from nershift.auto.jobs import Job

_WORDS = 2000  # characters of a worker's last words that are worth keeping


@dataclass(frozen=True)
class Answer:
    """What became of a job.

    Attributes:
        failed: why it has no result.
        device_lost: an error of the GPU that a new process may not have.
    """

    job: Job
    seconds: float = 0.0
    per_update: float = 0.0
    failed: str = ""
    device_lost: bool = False


class Pool(Protocol):
    """Where jobs run: here, or on a cluster."""

    places: int  # jobs at once

    def __enter__(self) -> Pool: ...
    def __exit__(self, *error: object) -> None: ...
    def free(self) -> int:
        """Places without a job."""

    def start(self, job: Job) -> None: ...
    def wait(self, seconds: float) -> list[Answer]:
        """Jobs that ended since the last call; waits so long for the first of them."""

    def drop(self, jobs: Sequence[str]) -> None:
        """Stop these jobs; they give no answer."""


@dataclass
class _Worker:
    process: subprocess.Popen[str]
    errors: Path
    job: Job | None = None
    read: threading.Thread | None = field(default=None, repr=False)


class LocalPool:
    """Processes that live as long as there is work, each with its share of the cores.

    Args:
        threads: of each, so that results do not depend on what else runs.
        folder: for what workers print when they fail.
    """

    def __init__(self, places: int, threads: int, folder: Path) -> None:
        self.places, self.threads, self.folder = places, threads, folder
        self._workers: list[_Worker] = []
        self._said: queue.Queue[tuple[_Worker, str]] = queue.Queue()

    def __enter__(self) -> LocalPool:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *error: object) -> None:
        for worker in list(self._workers):
            self._end(worker)

    def free(self) -> int:
        return self.places - sum(worker.job is not None for worker in self._workers)

    def start(self, job: Job) -> None:
        worker = next((w for w in self._workers if w.job is None), None) or self._launch()
        worker.job = job
        with suppress(OSError):  # it died; `wait` will say so
            assert worker.process.stdin is not None
            worker.process.stdin.write(json.dumps(job.to_dict()) + "\n")
            worker.process.stdin.flush()

    def _launch(self) -> _Worker:
        number = len(list(self.folder.glob("worker-*.txt"))) + 1
        errors = self.folder / f"worker-{number}.txt"
        counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(self.threads))
        with errors.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "nershift.auto.worker", str(self.threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                encoding="utf-8",
                env={**os.environ, **counts, "TOKENIZERS_PARALLELISM": "false"},
                start_new_session=True,  # Ctrl-C reaches whoever started it, who then decides
            )
        worker = _Worker(process, errors)
        worker.read = threading.Thread(target=self._listen, args=(worker,), daemon=True)
        worker.read.start()
        self._workers.append(worker)
        return worker

    def _listen(self, worker: _Worker) -> None:
        for line in worker.process.stdout or ():
            self._said.put((worker, line))
        self._said.put((worker, ""))

    def wait(self, seconds: float) -> list[Answer]:
        answers = deque[Answer]()
        with suppress(queue.Empty):
            answers += self._heard(*self._said.get(timeout=max(0.0, seconds)))
            while True:
                answers += self._heard(*self._said.get_nowait())
        return list(answers)

    def _heard(self, worker: _Worker, line: str) -> list[Answer]:
        job, worker.job = worker.job, None
        if line:
            told: dict[str, Any] = json.loads(line)
            answer = {k: told[k] for k in ("seconds", "per_update", "failed", "device_lost") if k in told}
            if told.get("device_lost"):
                self._end(worker)  # nothing else can run in it
            return [Answer(job, **answer)] if job is not None else []
        self._end(worker)
        return [Answer(job, failed=self._last_words(worker))] if job is not None else []

    def _last_words(self, worker: _Worker) -> str:
        code = worker.process.returncode
        with suppress(OSError):
            words = worker.errors.read_text(encoding="utf-8", errors="replace")[-_WORDS:].strip().splitlines()
            if words:
                return f"the worker ended with code {code}: {words[-1]}"
        return f"the worker ended with code {code}" + (", as happens when memory runs out" if code == -9 else "")

    def drop(self, jobs: Sequence[str]) -> None:
        for worker in [w for w in self._workers if w.job is not None and w.job.name in jobs]:
            worker.job = None
            self._end(worker)

    def _end(self, worker: _Worker) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
        with suppress(OSError):
            worker.process.kill()
        worker.process.wait()
