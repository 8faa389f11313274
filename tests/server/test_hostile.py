"""Every hostile request of the benchmark, once, against a server with small limits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")

from benchmarks import hostile
from nershift.server.limits import Limits
from nershift.server.run import Server, listen
from nershift.server.security import Guard
from nershift.server.service import Service

SMALL = Limits(tokens=2_000, head_seconds=1, body_seconds=1, rest_seconds=1, write_seconds=1)
QUICK = [kind for kind in hostile.STRANGE if kind != "deaf"]  # waits for ten seconds


@pytest.fixture(scope="module")
def port(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    service = Service(small_model, tmp_path_factory.mktemp("hostile"), SMALL)
    listening = listen("127.0.0.1", 0)
    server = Server(service, Guard(), quiet=True)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join()


@pytest.mark.parametrize("kind", [*hostile.WHOLE, *QUICK])
def test_it_is_answered_or_turned_down_and_the_server_goes_on(port: int, kind: str) -> None:
    try:
        status = asyncio.run(hostile.hostile(kind)(port))
    except ConnectionError:
        status = 0
    assert status == 503 or status < 500
    assert asyncio.run(hostile.exchange(port, hostile.texts("Okafor flew from Leeds to Porto ."))) == 200


@pytest.mark.parametrize("kind", ["dots", "most_dots", "most_entities", "no_spaces", "new_words", "token_lists"])
def test_work_on_text_does_not_hold_up_others(small_model: Path, tmp_path: Path, kind: str) -> None:
    """Splitting, counting and tagging go on for seconds; meanwhile `/health` is answered, many times in all."""
    service = Service(small_model, tmp_path, Limits(tokens=100_000))
    listening = listen("127.0.0.1", 0)
    server = Server(service, Guard(), quiet=True)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    health = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"

    async def ask() -> tuple[list[float], float]:
        to = listening.getsockname()[1]
        began = time.perf_counter()
        work = [asyncio.create_task(hostile.hostile(kind)(to)) for _ in range(4)]
        times = []
        while not all(task.done() for task in work):
            asked = time.perf_counter()
            assert await hostile.exchange(to, health) == 200
            times.append(time.perf_counter() - asked)
        assert set(await asyncio.gather(*work)) <= {200, 413, 422, 429, 503}
        return sorted(times), time.perf_counter() - began

    try:
        times, seconds = asyncio.run(asyncio.wait_for(ask(), 120))
    finally:
        server.should_exit = True
        thread.join()
    assert times[len(times) * 9 // 10] < 0.5, (kind, times[-5:])
    assert times[-1] < max(2.0, seconds / 4), (kind, times[-5:])
