"""Connections over real sockets, with limits so small that they are reached at once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("httptools")

from nershift.server.connection import Connection  # noqa: E402
from nershift.server.limits import Limits  # noqa: E402
from nershift.server.run import listen  # noqa: E402

LIMITS = Limits(
    connections=6,
    head_bytes=2_000,
    headers=10,
    pipelined=3,
    head_seconds=0.3,
    rest_seconds=0.3,
    idle_seconds=1,
    write_seconds=0.3,
)
GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
LARGE = 30_000_000  # bytes: more than the system buffers between two sockets
Talk = Callable[["Peer"], Awaitable[None]]


class Peer:
    """One client, and what the application has seen."""

    def __init__(self, port: int, seen: list[str]) -> None:
        self.port, self.seen = port, seen

    async def open(self, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        return reader, writer

    async def ask(self, data: bytes) -> tuple[int, Any]:
        """Status and body of the answer; 0 if the connection was closed without one."""
        reader, writer = await self.open(data)
        status, body = await answer(reader)
        writer.close()
        return status, body


async def answer(reader: asyncio.StreamReader) -> tuple[int, Any]:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(size)
        return int(head[9:12]), json.loads(body) if body.startswith(b"{") else body
    return 0, None


async def closed(reader: asyncio.StreamReader) -> bool:
    """Whether the server closes the connection, after whatever it still says."""
    with suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), 5)
    return True


async def app(scope: Any, receive: Any, send: Any) -> None:
    """`/large` answers with much, `/slow` after a moment, `/early` before the body is there."""
    path = scope["path"]
    scope["state"]["seen"].append(path)
    if path != "/early":
        while (await receive()).get("more_body"):
            pass
    await asyncio.sleep(0.5 if path == "/slow" else 0)
    body = b"x" * (LARGE if path == "/large" else 2)
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def talk(trial: Talk, **changed: Any) -> None:
    """Run a trial against a server with small limits."""
    seen: list[str] = []
    limits = replace(LIMITS, **changed)

    class Small(Connection):
        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.scope["state"] = {"seen": seen}

    Small.limits = limits
    listening = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        app,
        http=Small,
        log_config=None,
        lifespan="off",
        timeout_keep_alive=1,
        limit_concurrency=limits.connections + 1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        asyncio.run(asyncio.wait_for(trial(Peer(listening.getsockname()[1], seen)), 20))  # type: ignore[arg-type]
    finally:
        server.should_exit = server.force_exit = True
        thread.join()


def test_common_requests_are_answered() -> None:
    async def trial(peer: Peer) -> None:
        body = b"x" * 500_000
        post = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 500000\r\n\r\n" + body
        reader, writer = await peer.open()
        for request in (GET, post, GET + GET, post):
            writer.write(request)
            for _ in range(request.count(b"HTTP/1.1")):
                assert (await answer(reader))[0] == 200
        writer.close()

    talk(trial)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 11 + b"\r\n",
        b"GET / HTTP/1.1\r\nlong: " + b"b" * 3_000 + b"\r\n\r\n",
        b"GET /" + b"b" * 3_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nnever-ending: " + b"b" * 3_000,
        b"GET /" + b"never-ending" * 300,
        b"GET / HTTP/1.1\r\nhost: a\r\n" + b"b" * 3_000,
        b"\r\n" * 1_500,
    ],
    ids=["many", "value", "path", "value without end", "path without end", "name without end", "empty lines"],
)
def test_a_large_head_is_refused(head: bytes) -> None:
    async def trial(peer: Peer) -> None:
        status, body = await peer.ask(head)
        assert (status, body["error"]["code"]) == (431, "headers")
        assert peer.seen == []

    talk(trial)


@pytest.mark.parametrize(
    "data", [b"no HTTP at all\r\n\r\n", b"GET / HTTP/1.1\r\na\x00b: c\r\n\r\n", b"\x16\x03\x01\x02"]
)
def test_what_is_not_http_is_told(data: bytes) -> None:
    async def trial(peer: Peer) -> None:
        status, body = await peer.ask(data)
        assert (status, body["error"]["code"]) == (400, "http")

    talk(trial)


def test_a_head_has_to_be_there_in_time() -> None:
    async def trial(peer: Peer) -> None:
        assert (await peer.ask(b"GET / HTTP/1.1\r\nhost: a\r\n"))[0] == 408
        reader, writer = await peer.open(b"GET / HTTP/1.1\r\nslow: ")
        sending = asyncio.create_task(trickle(writer))
        assert (await answer(reader))[0] == 408  # sending all the time does not help
        sending.cancel()

    talk(trial)


async def trickle(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"x")
        await asyncio.sleep(0.02)


def test_idle_connections_are_closed() -> None:
    async def trial(peer: Peer) -> None:
        silent, _ = await peer.open()
        assert await closed(silent)
        used, writer = await peer.open(GET)
        assert (await answer(used))[0] == 200
        writer.write(b"\r\n")  # ends the pause between two requests, which uvicorn watches, and begins none
        assert await closed(used)

    talk(trial)


def test_the_rest_of_a_refused_request_has_an_end() -> None:
    async def trial(peer: Peer) -> None:
        reader, writer = await peer.open(
            b"POST /early HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n"
        )
        assert (await answer(reader))[0] == 200
        sending = asyncio.create_task(chunks(writer))
        assert await closed(reader)
        sending.cancel()
        reader, writer = await peer.open(b"POST /early HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nab")
        assert (await answer(reader))[0] == 200
        writer.write(b"cd" + GET)  # sent after all: the connection goes on
        assert (await answer(reader))[0] == 200
        await asyncio.sleep(0.5)
        writer.write(GET)
        assert (await answer(reader))[0] == 200

    talk(trial)


async def chunks(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"1\r\nx\r\n")
        await asyncio.sleep(0.02)


def test_a_flood_on_one_connection_ends_it() -> None:
    async def trial(peer: Peer) -> None:
        reader, writer = await peer.open(GET.replace(b"/ ", b"/slow ") * 1_000)
        assert await closed(reader)
        writer.close()
        assert len(peer.seen) <= LIMITS.pipelined
        assert (await peer.ask(GET))[0] == 200

    talk(trial)


def test_nothing_is_said_to_clients_that_have_left(caplog: pytest.LogCaptureFixture) -> None:
    """Not even to the first of several requests of one connection: that was a traceback in the log."""

    async def trial(peer: Peer) -> None:
        for _ in range(3):
            _, writer = await peer.open(GET.replace(b"/ ", b"/slow ") * 3)
            await asyncio.sleep(0.2)
            writer.transport.abort()
        await asyncio.sleep(1.0)
        assert peer.seen.count("/slow") >= 3
        assert (await peer.ask(GET))[0] == 200

    talk(trial)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_client_that_does_not_read_is_cut_off() -> None:
    async def trial(peer: Peer) -> None:
        reader, writer = await peer.open()
        writer.transport.pause_reading()
        writer.write(GET.replace(b"/ ", b"/large "))
        await asyncio.sleep(1.0)
        writer.transport.resume_reading()
        got = 0
        with suppress(ConnectionError):
            while part := await asyncio.wait_for(reader.read(1 << 20), 5):
                got += len(part)
        assert got < LARGE

    talk(trial)


def test_those_that_do_nothing_make_room() -> None:
    async def trial(peer: Peer) -> None:
        idle = []
        for _ in range(LIMITS.connections):
            idle.append(await peer.open(b"GET / HTTP/1.1\r\n"))
            await asyncio.sleep(0.03)
        for _ in range(3):
            assert (await peer.ask(GET))[0] == 200
        assert (await answer(idle[0][0]))[0] == 0  # the oldest was closed
        idle[-1][1].write(b"\r\n")
        assert (await answer(idle[-1][0]))[0] == 200  # the newest was not

    talk(trial, head_seconds=10)


def test_those_that_are_served_are_not_cut_off() -> None:
    async def trial(peer: Peer) -> None:
        slow = GET.replace(b"/ ", b"/slow ")
        served = [await peer.open(slow) for _ in range(LIMITS.connections)]
        while len(peer.seen) < LIMITS.connections:
            await asyncio.sleep(0.01)
        assert [(await peer.ask(GET))[0] for _ in range(3)] == [503] * 3
        assert [(await answer(reader))[0] for reader, _ in served] == [200] * LIMITS.connections

    talk(trial)
