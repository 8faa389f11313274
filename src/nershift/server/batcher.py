"""Batches of concurrent requests: a bounded queue and one thread that empties it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from nershift.errors import NershiftError
from nershift.server.inference import Reading, Tagged
from nershift.server.limits import Limits
from nershift.server.refusals import Refusal, shutting_down, too_busy, too_slow

log = logging.getLogger(__name__)
TagBatch = Callable[[str, Sequence[Reading]], list[list[Tagged]]]  # version, readings → sentences of each


@dataclass(slots=True, eq=False)
class Work:
    """One request: its texts, the version to tag them with, and what to do with the result."""

    version: str
    read: Callable[[], list[Reading]]
    finish: Callable[[list[Reading], list[list[Tagged]]], Any]
    characters: int
    deadline: float
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class Batcher:
    """Takes requests from the event loop and hands batches to ``tag`` in a thread of its own.

    Requests gather while the previous batch is computed, so a lone request is answered at once and batches grow with
    the load. If a batch fails, its requests are retried one by one, so that one bad request does not fail the others.
    """

    def __init__(self, tag: TagBatch, limits: Limits, observe: Callable[[int], None] = lambda n: None) -> None:
        self._tag, self.limits, self._observe = tag, limits, observe
        self._waiting: deque[Work] = deque()
        self._characters = 0
        self._change = threading.Condition()
        self._open = True
        self._thread = threading.Thread(target=self._work, name="nershift-tagging", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._waiting)

    async def submit(
        self,
        version: str,
        read: Callable[[], list[Reading]],
        finish: Callable[[list[Reading], list[list[Tagged]]], Any],
        characters: int,
    ) -> Any:
        """The result of ``finish`` on the tagged readings.

        Raises:
            Refusal: the queue is full (429), the time limit is reached or the server stops (503).
        """
        limits, loop = self.limits, asyncio.get_running_loop()
        deadline = time.monotonic() + limits.seconds
        work = Work(version, read, finish, characters, deadline, loop, loop.create_future())
        with self._change:
            if not self._open:
                raise shutting_down()
            full = self._waiting and self._characters + characters > limits.queue_characters
            if len(self._waiting) >= limits.queue or full:
                raise too_busy(len(self._waiting))
            self._waiting.append(work)
            self._characters += characters
            self._change.notify()
        timer = loop.call_later(limits.seconds, _settle, [(work.done, too_slow(limits.seconds))])
        try:
            return await work.done
        except (Refusal, asyncio.CancelledError):  # nobody is waiting any more: make room
            self._forget(work)
            raise
        finally:
            timer.cancel()

    def _forget(self, work: Work) -> None:
        with self._change, suppress(ValueError):
            self._waiting.remove(work)
            self._characters -= work.characters

    def close(self) -> None:
        """Refuse what still waits and end the thread."""
        with self._change:
            self._open = False
            left, self._waiting = list(self._waiting), deque()
            self._change.notify()
        _deliver([(work, shutting_down()) for work in left])
        self._thread.join(timeout=10)

    def _work(self) -> None:
        while batch := self._next():
            now = time.monotonic()
            live = [w for w in batch if w.deadline > now and not w.done.done()]
            for version in dict.fromkeys(w.version for w in live):
                self._run(version, [w for w in live if w.version == version])

    def _next(self) -> list[Work]:
        """The next requests that fit in a batch, at least one; none once the server stops."""
        batch: list[Work] = []
        characters = 0
        with self._change:
            while self._open and not self._waiting:
                self._change.wait()
            while self._open and self._waiting and len(batch) < self.limits.batch_requests:
                characters += self._waiting[0].characters
                if batch and characters > self.limits.batch_characters:
                    break
                batch.append(self._waiting.popleft())
                self._characters -= batch[-1].characters
        return batch

    def _run(self, version: str, works: list[Work]) -> None:
        try:
            read = [w.read() for w in works]
            tagged = iter(self._tag(version, [r for readings in read for r in readings]))
            results = [w.finish(r, list(islice(tagged, len(r)))) for w, r in zip(works, read, strict=True)]
        except Exception as error:
            if len(works) > 1:
                for work in works:
                    self._run(version, [work])
                return
            _deliver([(works[0], _refusal(error))])
            return
        self._observe(len(works))
        _deliver(list(zip(works, results, strict=True)))


def _deliver(results: Sequence[tuple[Work, Any]]) -> None:
    """Hand results, or exceptions, back to the event loops they are awaited in: one call per loop."""
    for loop in {work.loop for work, _ in results}:
        mine = [(work.done, result) for work, result in results if work.loop is loop]
        with suppress(RuntimeError):  # the loop is closed: nobody is waiting
            loop.call_soon_threadsafe(_settle, mine)


def _settle(results: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in results:
        if future.done():  # timed out, or the client disconnected
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


def _refusal(error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, NershiftError):
        return Refusal.of(error)
    log.exception("tagging failed", exc_info=error)
    return Refusal(500, "internal", "tagging failed", "see the log of the server")
