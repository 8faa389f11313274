"""Guessing tokens: each wrong one makes the next take longer, and others do not notice."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nershift.server.guesses import Guesses
from nershift.server.limits import Limits
from nershift.server.refusals import Refusal
from nershift.server.security import Guard

TOKEN = "a-long-enough-token"
LIMITS = replace(Limits(), guesses=3, guess_seconds=0.4, guess_forgotten=1.0)


def waited(guesses: Guesses, address: str, port: int = 1) -> float:
    began = time.monotonic()
    asyncio.run(guesses.wait((address, port)))
    return time.monotonic() - began


def test_each_wrong_token_makes_the_next_wait_longer() -> None:
    guesses = Guesses(LIMITS)
    assert waited(guesses, "10.0.0.1") < 0.05
    times = []
    for _ in range(4):
        guesses.wrong(("10.0.0.1", 1))
        times.append(waited(guesses, "10.0.0.1"))
    assert times == pytest.approx([0.1, 0.2, 0.4, 0.4], abs=0.08)
    assert waited(guesses, "10.0.0.2") < 0.05


def test_after_a_while_it_is_forgotten() -> None:
    guesses = Guesses(replace(LIMITS, guess_forgotten=0.3))
    for _ in range(5):
        guesses.wrong(("a", 1))
    time.sleep(0.35)
    assert waited(guesses, "a") < 0.05
    guesses.wrong(("a", 1))
    assert waited(guesses, "a") == pytest.approx(0.1, abs=0.08)


def test_asking_all_at_once_does_not_help() -> None:
    guesses = Guesses(LIMITS)
    guesses.wrong(("a", 1))

    async def ask() -> list[Any]:
        return await asyncio.gather(*(guesses.wait(("a", port)) for port in range(50)), return_exceptions=True)

    answers = asyncio.run(ask())
    refused = [answer for answer in answers if isinstance(answer, Refusal)]
    assert len(refused) == 47
    assert {(refusal.status, refusal.code) for refusal in refused} == {(429, "guessing")}
    assert waited(guesses, "a") < 0.2  # those who waited have left


def test_guessers_from_everywhere_leave_room_for_others() -> None:
    guesses = Guesses(replace(LIMITS, connections=40))
    for i in range(20):
        guesses.wrong((str(i), 1))

    async def ask() -> list[Any]:
        return await asyncio.gather(*(guesses.wait((str(i), 1)) for i in range(20)), return_exceptions=True)

    assert sum(isinstance(answer, Refusal) for answer in asyncio.run(ask())) == 10
    assert waited(guesses, "0") < 0.2


def test_customers_of_one_network_are_one() -> None:
    guesses = Guesses(LIMITS)
    guesses.wrong(("2001:db8::1", 1))
    assert waited(guesses, "2001:db8::ffff") > 0.05
    assert waited(guesses, "2001:db8:0:1::1") < 0.05


def test_few_addresses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nershift.server.guesses._ADDRESSES", 100)
    guesses = Guesses(LIMITS)
    for i in range(300):
        guesses.wrong((str(i), 1))
    assert len(guesses._guessers) == 100


def test_a_connection_whose_token_was_right_is_not_slowed_down_by_others() -> None:
    guesses = Guesses(replace(LIMITS, connections=10))
    guesses.right(("a", 1))
    for _ in range(4):
        guesses.wrong(("a", 2))
    assert waited(guesses, "a", port=1) < 0.05
    assert waited(guesses, "a", port=2) > 0.3
    assert waited(guesses, "a", port=3) > 0.3  # nothing is known of a new one
    guesses.wrong(("a", 1))  # behind a proxy another client may use the connection next
    assert waited(guesses, "a", port=1) > 0.3
    for port in range(20):
        guesses.right(("a", port))
    assert len(guesses._known) == 10


def test_over_http(small_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from nershift.server.app import make_app
    from nershift.server.service import Service

    service = Service(small_model, tmp_path, replace(LIMITS, guess_forgotten=30.0))
    with TestClient(make_app(service, Guard(TOKEN)), base_url="http://example.org") as client:

        def ask(path: str = "/models", token: str | None = None) -> tuple[int, float]:
            began = time.monotonic()
            headers = {} if token is None else {"authorization": f"Bearer {token}"}
            return client.get(path, headers=headers).status_code, time.monotonic() - began

        for _ in range(20):
            assert ask()[0] == 401  # none at all is no guess
        assert ask(token=TOKEN) == (200, pytest.approx(0, abs=0.2))
        wrong = [ask(token=f"wrong-{i}") for i in range(6)]
        assert {status for status, _ in wrong} == {401}
        assert sum(seconds for _, seconds in wrong) > 0.1 + 0.2 + 3 * 0.4
        assert ask("/health", "wrong") == (200, pytest.approx(0, abs=0.2))  # open to all: nothing to guess
        status, seconds = ask(token=TOKEN)  # not told sooner than a wrong one
        assert status == 200
        assert seconds > 0.3
