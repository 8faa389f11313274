from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, MutableMapping
from typing import Any

import pytest

pytest.importorskip("starlette")

from nershift.server.bodies import Bodies
from nershift.server.limits import Limits
from nershift.server.refusals import Refusal

LIMITS = Limits(body_bytes=100, held_bytes=250, body_seconds=5, values=50)
JSON = {b"content-type": b"application/json"}


class Client:
    """Sends a body part by part, when it is told to."""

    def __init__(self, bodies: Bodies, headers: Mapping[bytes, bytes] = JSON) -> None:
        self.bodies, self.headers = bodies, headers
        self.parts: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self.answered = asyncio.Event()
        self.task = asyncio.create_task(self.ask())

    async def ask(self) -> bytes | None:
        async with self.bodies.read(self.headers, self.parts.get) as body:
            if body is not None:
                await self.answered.wait()
            return body

    async def send(self, size: int, more: bool = True) -> None:
        self.parts.put_nowait({"type": "http.request", "body": b"x" * size, "more_body": more})
        await asyncio.sleep(0.01)

    def status(self) -> int:
        """0 while it waits."""
        if not self.task.done():
            return 0
        error = self.task.exception()
        return error.status if isinstance(error, Refusal) else 200


def trial(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


def test_those_that_stop_half_way_make_room() -> None:
    async def work() -> None:
        bodies = Bodies(LIMITS)
        slow = [Client(bodies) for _ in range(3)]
        for client in slow:
            await client.send(80)
        quick = Client(bodies)
        await quick.send(90, more=False)
        assert [client.status() for client in slow] == [503, 0, 0]  # the oldest
        quick.answered.set()
        assert await quick.task == b"x" * 90
        for client in slow[1:]:
            await client.send(20, more=False)
            client.answered.set()
            assert len(await client.task or b"") == 100
        assert bodies._held == 0

    trial(work)


def test_bodies_being_answered_keep_their_room() -> None:
    async def work() -> None:
        bodies = Bodies(LIMITS)
        busy = [Client(bodies) for _ in range(2)]
        for client in busy:
            await client.send(100, more=False)
        late = Client(bodies)
        await late.send(60)
        assert [client.status() for client in (*busy, late)] == [0, 0, 503]
        for client in busy:
            client.answered.set()
            await client.task
        assert bodies._held == 0

    trial(work)


def test_a_body_is_bounded_in_size_time_and_values() -> None:
    async def work() -> None:
        bodies = Bodies(Limits(body_bytes=100, body_seconds=0.05, values=50))
        announced = Client(bodies, {b"content-length": b"101"})
        odd = Client(bodies, {b"content-length": b"-1"})
        large, slow, listed, text = (Client(bodies) for _ in range(4))
        await large.send(90)
        await large.send(90)
        listed.parts.put_nowait({"type": "http.request", "body": b"[" + b"0," * 47 + b"[],{}]"})
        text.parts.put_nowait({"type": "http.request", "body": b'["' + b"." * 90 + b'"]'})
        await slow.send(1)
        await asyncio.sleep(0.1)
        assert [c.status() for c in (announced, odd, large, slow, listed, text)] == [413, 413, 413, 408, 413, 0]
        text.answered.set()
        await text.task
        assert bodies._held == 0

    trial(work)


def test_a_client_that_leaves_is_forgotten() -> None:
    async def work() -> None:
        bodies = Bodies(LIMITS)
        client = Client(bodies)
        await client.send(80)
        client.parts.put_nowait({"type": "http.disconnect"})
        assert await client.task is None
        assert bodies._held == 0

    trial(work)


def test_a_server_that_stops_tells_those_that_send() -> None:
    async def work() -> None:
        bodies = Bodies(LIMITS)
        sending, waiting = Client(bodies), Client(bodies)
        await sending.send(50)
        await waiting.send(50, more=False)
        bodies.stop()
        late = Client(bodies)
        await asyncio.sleep(0.02)
        assert [c.status() for c in (sending, waiting, late)] == [503, 0, 503]
        waiting.answered.set()
        await waiting.task

    trial(work)
