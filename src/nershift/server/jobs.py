"""Adaptation in the background: one at a time, in a process of its own, with progress and cancel."""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nershift.data.formats import jsonl
from nershift.data.spans import Sentence
from nershift.errors import NershiftError, StorageError
from nershift.server.deadline import Deadline
from nershift.server.limits import Limits
from nershift.server.refusals import Refusal, cannot_write, shutting_down
from nershift.server.version_folder import FIRST, Version
from nershift.server.versions import Store

log = logging.getLogger(__name__)
_FINAL = ("done", "failed", "cancelled")
# What a version has no use for.
_OF_A_RUN = ("config.yaml", "fit.json", "log.jsonl", "metrics.json", "predictions.jsonl", "work", ".lock")


@dataclass
class Job:
    """One adaptation and how far it has come."""

    name: str
    state: str = "waiting"
    progress: float = 0.0
    message: str = ""
    version: str | None = None
    f1: dict[str, Any] | None = None
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None

    def describe(self) -> dict[str, Any]:
        shown = {name: getattr(self, name) for name in ("state", "progress", "message", "version", "f1")}
        return {"job": self.name, **shown, "seconds": round((self.ended or time.monotonic()) - self.began, 1)}


@dataclass(frozen=True)
class Plan:
    """The version that an adaptation will create, and the labels it learns from."""

    name: str
    parent: str
    labels: Sequence[Sentence]
    note: str
    cross_validate: bool

    def version(self, types: Sequence[str], method: str) -> Version:
        count = len(self.labels)
        return Version(self.name, tuple(types), method, parent=self.parent, note=self.note, sentences=count)


class Jobs:
    """Starts adaptations and follows them.

    A new version learns from the first one's weights with all labels of the version that serves and the new
    ones, so that versions do not drift with the number of adaptations.

    Args:
        ended: called with the final state of each job.
        command: the process to start, up to the name of its job file.
    """

    def __init__(
        self,
        store: Store,
        limits: Limits,
        ended: Callable[[str], None] = lambda state: None,
        command: Sequence[str] = (sys.executable, "-m", "nershift.server.work"),
    ) -> None:
        self.store, self.limits, self._ended, self._command = store, limits, ended, tuple(command)
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._lock = threading.Lock()
        self._open = True
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None

    def find(self, name: str) -> Job:
        job = self._jobs.get(name)
        if job is None:
            raise Refusal(404, "unknown", "there is no such job", "POST /adapt starts one and names it")
        return job

    def start(self, sentences: Sequence[Sentence], note: str = "", cross_validate: bool = True) -> Job:
        """Begin an adaptation.

        Raises:
            Refusal: one is under way (429), there are too many versions (409), no entity is labelled (422).
        """
        clearing_up = self._thread_lives()
        with self._lock:
            if not self._open:
                raise shutting_down()
            if clearing_up or any(job.state not in _FINAL for job in self._jobs.values()):
                raise Refusal(429, "busy", "an adaptation is under way", "wait for it, or cancel it")
            if len(self.store) >= self.limits.versions:
                message = f"{len(self.store)} versions are kept already"
                raise Refusal(409, "full", message, "start with an empty --store")
            parent = self.store.current
            labels = merged(self.store.labels(parent), sentences)
            if not any(s.spans for s in labels):
                raise Refusal(422, "no_entities", "no sentence has an entity", "mark at least one entity")
            job = Job(f"j{secrets.token_hex(4)}")
            self._jobs[job.name] = job
            while len(self._jobs) > self.limits.jobs:
                self._jobs.popitem(last=False)
            plan = Plan(self.store.next_name(), parent, labels, note, cross_validate)
            self._thread = threading.Thread(target=self._follow, args=(job, plan), daemon=True)
            self._thread.start()
        return job

    def _thread_lives(self) -> bool:
        """Whether the thread of the last job still runs; a finished or cancelled job gets a moment to clean up."""
        thread, last = self._thread, next(reversed(self._jobs.values()), None)
        if thread is not None and last is not None and last.state in _FINAL:
            thread.join(timeout=2)
        return thread is not None and thread.is_alive()

    def cancel(self, name: str) -> Job:
        """Stop an adaptation; a version that already serves stays."""
        job = self.find(name)
        with self._lock:
            if job.state not in _FINAL:
                what = "cancelled" if job.version is None else f"{job.version} serves, without F1"
                self._end(job, "cancelled", what)
                self._stop_process()
        return job

    def close(self) -> None:
        with self._lock:
            self._open = False
            self._stop_process()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _stop_process(self) -> None:
        """End the process and those it has started, which would else keep its output open."""
        if self._process is not None:
            with suppress(OSError):
                if hasattr(os, "killpg"):
                    os.killpg(self._process.pid, signal.SIGKILL)
                else:
                    self._process.kill()

    def _end(self, job: Job, state: str, message: str) -> None:
        job.state, job.message, job.ended = state, message, time.monotonic()
        if state == "done":
            job.progress = 1.0
        self._ended(state)

    def _follow(self, job: Job, plan: Plan) -> None:
        scratch = self.store.folder / f".{job.name}.tmp"
        failure = ""
        try:
            scratch.mkdir()
            process = self._launch(job, plan, scratch)
            if process is None:
                return
            stopped = self._listen(process, job, plan)
            if stopped:
                log.error("adaptation %s was stopped: %s", job.name, stopped)
                failure = f"the adaptation was stopped: {stopped}"
            elif process.returncode or job.version is None:
                failure = _why(job, process.returncode, scratch)
        except (OSError, ValueError, NershiftError) as error:
            log.exception("adaptation %s failed", job.name)
            failure = cannot_write(error).message if isinstance(error, (OSError, StorageError)) else str(error)
        finally:
            with self._lock:
                self._process = None
            for left in (scratch, self.store.folder / f".{plan.name}.tmp"):
                shutil.rmtree(left, ignore_errors=True)
            with self._lock:
                if job.state not in _FINAL:
                    kept = f"; {job.version} serves, without F1" if failure and job.version else ""
                    self._end(job, "failed" if failure else "done", failure + kept or f"{job.version} serves")

    def _listen(self, process: subprocess.Popen[str], job: Job, plan: Plan) -> str:
        """Handle what the process says until it ends; why it was stopped, if it took too long for anything."""
        late: list[str] = []

        def stop(why: str) -> None:
            late.append(why)
            with self._lock:
                self._stop_process()

        deadline = Deadline(self.limits.silent_seconds, self.limits.adapt_seconds, stop)
        with process:
            try:
                for line in process.stdout or ():
                    deadline.heard()
                    self._hear(job, plan, json.loads(line))
            except BaseException:
                stop("")
                raise
            finally:
                deadline.stop()
        return "".join(late)

    def _launch(self, job: Job, plan: Plan, scratch: Path) -> subprocess.Popen[str] | None:
        """The process; None if the job was cancelled first."""
        jsonl.write(scratch / "labels.jsonl", plan.labels)
        settings = {
            "base": str(self.store.path(FIRST)),
            "labels": str(scratch / "labels.jsonl"),
            "scratch": str(scratch),
            "out": str(self.store.new_folder(plan.name)),
            "seconds": self.limits.train_seconds,
            "cross_validate": plan.cross_validate,
            "verify": self.store.verify,
            "fit_minutes": self.limits.fit_minutes if plan.cross_validate else 0.0,
            "fit_from": self.limits.fit_from,
        }
        (scratch / "job.json").write_text(json.dumps(settings), encoding="utf-8")
        with self._lock, open(scratch / "errors.txt", "wb") as errors:
            if not self._open or job.state in _FINAL:
                return None
            self._process = subprocess.Popen(
                [*self._command, str(scratch / "job.json")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # so that Ctrl-C reaches the server alone
            )
            job.state, job.message = "training", "loading the model"
            return self._process

    def _hear(self, job: Job, plan: Plan, news: dict[str, Any]) -> None:
        """Handle a message of the process: progress, a finished tagger, its F1, or an error."""
        with self._lock:
            if job.state in _FINAL:
                return
            if "ready" in news:
                self.store.add(plan.version(news["ready"], news["method"]), plan.labels)
                self.store.choose(plan.name)
                job.version, job.message = plan.name, f"{plan.name} serves"
            elif "better" in news:
                self._take_better(job, plan, news)
            elif "f1" in news:
                if news["f1"] and job.version:
                    self.store.add_score(job.version, news["f1"])
                    job.f1 = news["f1"]
            elif "failed" in news:
                self._end(job, "failed", news["failed"])
            else:
                job.state, job.progress, job.message = news["state"], news["progress"], news["message"]

    def _take_better(self, job: Job, plan: Plan, news: dict[str, Any]) -> None:
        """Another recipe learns these labels better: it becomes the next version, beside the adapted one."""
        better = replace(plan, name=self.store.next_name(), note=f"{plan.note} ({news['recipe']})".strip())
        folder = self.store.new_folder(better.name)
        shutil.copytree(news["folder"], folder, ignore=shutil.ignore_patterns(*_OF_A_RUN), dirs_exist_ok=True)
        self.store.add(better.version(news["better"], news["method"]), plan.labels)
        if self.store.current == plan.name:  # unless somebody has chosen another one meanwhile
            self.store.choose(better.name)
        job.version, job.message = better.name, f"{better.name} serves: {news['recipe']} was better"
        if news["f1"]:
            self.store.add_score(better.name, news["f1"])
            job.f1 = news["f1"]


def _why(job: Job, code: int, scratch: Path) -> str:
    with suppress(OSError):
        text = (scratch / "errors.txt").read_text(encoding="utf-8", errors="replace")
        log.error("adaptation %s ended with %s:\n%s", job.name, code, text[-4000:])
    return f"the adaptation ended with code {code}; see the log of the server"


def merged(before: Sequence[Sentence], new: Sequence[Sentence]) -> list[Sentence]:
    """All labelled sentences; new labels replace earlier ones of the same sentence.

    Example:
        >>> old = [Sentence.of(["Rome"], [(0, 1, "PER")]), Sentence.of(["Ada"], [(0, 1, "PER")])]
        >>> [s.spans[0].label for s in merged(old, [Sentence.of(["Rome"], [(0, 1, "LOC")])])]
        ['LOC', 'PER']
    """
    return list({s.tokens: s for s in (*before, *new)}.values())
