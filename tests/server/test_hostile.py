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
