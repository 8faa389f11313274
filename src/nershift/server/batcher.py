"""Batches of concurrent requests: a bounded queue and one thread that empties it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from nershift.data.spans import Sentence
from nershift.errors import NershiftError
from nershift.server.inference import Reading, Tagged, join
from nershift.server.limits import Limits
from nershift.server.refusals import Refusal, shutting_down, too_busy, too_slow
from nershift.tagger.long_sentences import Parts

log = logging.getLogger(__name__)
TagBatch = Callable[[str, Sequence[Sentence]], list[Tagged]]  # version, sentences → the result of each
Finish = Callable[[list[Reading], list[list[Tagged]]], Any]
_TURNS = 4  # requests of any length that share a batch: none gets more than this part of one while others wait


@dataclass(slots=True, eq=False, repr=False)  # its repr would hold all its texts
class Work:
    """One request: its texts, the version to tag them with, what to do with the result, and how far it has come."""

    version: str
    read: Callable[[], list[Reading]]
    finish: Finish
    tokens: int  # left to tag, or a bound on them
    deadline: float
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]
    readings: list[Reading] | None = None
    parts: Parts | None = None  # of their sentences: a long one is tagged in turns like others
    ahead: deque[Sentence] = field(default_factory=deque)
    tagged: list[Tagged] = field(default_factory=list)

    def take(self, most: int) -> list[Sentence]:
        """The next sentences, of ``most`` tokens together, or one that is longer."""
        if self.readings is None:
            self.readings = self.read()
            self.parts = Parts([s for reading in self.readings for s in reading.sentences])
            self.ahead.extend(self.parts.sentences)
            self.tokens = sum(map(len, self.ahead))
        taken: list[Sentence] = []
        while self.ahead and (not taken or len(self.ahead[0]) <= most):
            taken.append(self.ahead.popleft())
            most -= len(taken[-1])
            self.tokens -= len(taken[-1])
        return taken

    def result(self) -> Any:
        assert self.readings is not None
        assert self.parts is not None
        tagged = iter(join(self.parts, self.tagged))
        return self.finish(self.readings, [list(islice(tagged, len(r.sentences))) for r in self.readings])


class Batcher:
    """Takes requests from the event loop and hands batches to ``tag`` in a thread of its own.

    Requests gather while the previous batch is computed, so a lone request is answered at once and batches grow with
    the load. A long request is tagged in several batches, and goes to the end of the queue after each, so that others
    need not wait for all of it. If a batch fails, its requests are retried one by one, so that one bad request does
    not fail the others.
    """

    def __init__(self, tag: TagBatch, limits: Limits, observe: Callable[[int], None] = lambda n: None) -> None:
        self._tag, self.limits, self._observe = tag, limits, observe
        self._waiting: deque[Work] = deque()
        self._tokens = 0  # of all requests that are not answered
        self._change = threading.Condition()
        self._open = True
        self._thread = threading.Thread(target=self._work, name="nershift-tagging", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._waiting)

    async def submit(self, version: str, read: Callable[[], list[Reading]], finish: Finish, tokens: int) -> Any:
        """The result of ``finish`` on the tagged readings, which have at most ``tokens`` tokens.

        Raises:
            Refusal: it is too long (413), the queue is full (429), the time limit is reached or the server stops (503).
        """
        limits, loop = self.limits, asyncio.get_running_loop()
        if tokens > limits.tokens:
            message = f"up to {tokens} tokens in one request, at most {limits.tokens} are allowed"
            raise Refusal(413, "too_long", message, "send less text at once")
        deadline = time.monotonic() + limits.seconds
        work = Work(version, read, finish, tokens, deadline, loop, loop.create_future())
        with self._change:
            if not self._open:
                raise shutting_down()
            full = self._tokens and self._tokens + tokens > limits.queue_tokens
            if len(self._waiting) >= limits.queue or full:
                raise too_busy(len(self._waiting))
            self._waiting.append(work)
            self._tokens += tokens
            self._change.notify()
        timer = loop.call_later(limits.seconds, _settle, [(work.done, too_slow(limits.seconds))])
        try:
            return await work.done
        except (Refusal, asyncio.CancelledError):  # nobody is waiting any more: make room
            with self._change, suppress(ValueError):
                self._waiting.remove(work)
            raise
        finally:
            timer.cancel()
            with self._change:
                self._tokens -= tokens

    def stop(self) -> None:
        """Refuse what still waits, and what comes; the batch under way is finished."""
        with self._change:
            self._open = False
            left, self._waiting = list(self._waiting), deque()
            self._change.notify()
        _deliver([(work, shutting_down()) for work in left])

    def close(self) -> None:
        self.stop()
        self._thread.join(timeout=10)

    def _work(self) -> None:
        while self._open:
            going = self._tag_next(self._next())
            _deliver([(work, _result(work)) for work in going if not work.ahead])
            self._put_back([work for work in going if work.ahead])

    def _put_back(self, works: list[Work]) -> None:
        with self._change:
            if self._open:
                self._waiting.extend(works)
                return
        _deliver([(work, shutting_down()) for work in works])

    def _next(self) -> list[Work]:
        """The next requests for one version that fit in a batch; none where all have given up, or the server stops."""
        batch, others = list[Work](), list[Work]()
        room = self.limits.batch_tokens
        with self._change:
            while self._open and not self._waiting:
                self._change.wait()
            now = time.monotonic()
            while self._waiting and len(batch) < self.limits.batch_requests and room > 0:
                work = self._waiting.popleft()
                if work.deadline <= now or work.done.done():
                    continue
                if batch and work.version != batch[0].version:
                    others.append(work)
                    continue
                batch.append(work)
                room -= min(work.tokens, self.limits.batch_tokens // _TURNS)
            self._waiting.extendleft(reversed(others))
        return batch

    def _tag_next(self, batch: list[Work]) -> list[Work]:
        """Tag the next sentences of each request; returns those for which that went well, and refuses the others."""
        share = self.limits.batch_tokens // min(max(len(batch), 1), _TURNS)
        taken: dict[Work, list[Sentence]] = {}
        for work in batch:
            try:
                taken[work] = work.take(share)
            except Exception as error:
                _deliver([(work, _refusal(error))])
        return self._tag_together(taken) if taken else []

    def _tag_together(self, taken: dict[Work, list[Sentence]]) -> list[Work]:
        works = list(taken)
        try:
            tagged = iter(self._tag(works[0].version, [s for work in works for s in taken[work]]))
        except Exception as error:
            if len(works) > 1:
                return [one for work in works for one in self._tag_together({work: taken[work]})]
            _deliver([(works[0], _refusal(error))])
            return []
        for work in works:
            work.tagged += islice(tagged, len(taken[work]))
        self._observe(len(works))
        return works


def _result(work: Work) -> Any:
    try:
        return work.result()
    except Exception as error:
        return _refusal(error)


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
