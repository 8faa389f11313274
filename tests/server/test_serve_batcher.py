from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from nershift.errors import DataError
from nershift.server.batcher import Batcher
from nershift.server.inference import Reading, Tagged
from nershift.server.limits import Limits
from nershift.server.refusals import Refusal

LIMITS = Limits(queue=8, batch_requests=4, seconds=5)


class Slow:
    """A tagger that waits until it is let go, and notes its batches; the word 'bad' breaks it."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.batches: list[tuple[str, list[str]]] = []

    def __call__(self, version: str, readings: Sequence[Reading]) -> list[list[Tagged]]:
        self.go.wait(5)
        words = [r.tokens[0] for r in readings]
        self.batches.append((version, words))
        if "bad" in words:
            raise ValueError("bad")
        if "wrong" in words:
            raise DataError("wrong", fix="write it right")
        return [[Tagged((), 0.5)] for _ in readings]


async def ask(batcher: Batcher, word: str, version: str = "v1") -> str:
    def finish(readings: list[Reading], tagged: list[list[Tagged]]) -> str:
        assert len(tagged) == len(readings) == 1
        return f"{readings[0].tokens[0]}!"

    made: str = await batcher.submit(version, lambda: [Reading.of_tokens([word])], finish, len(word))
    return made


def together(batcher: Batcher, slow: Slow, words: list[str], versions: list[str] | None = None) -> list[Any]:
    """All requests are in the queue before the first is tagged."""

    async def run() -> list[Any]:
        given = versions or ["v1"] * len(words)
        tasks = [asyncio.create_task(ask(batcher, w, v)) for w, v in zip(words, given, strict=True)]
        await asyncio.sleep(0.05)
        slow.go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(run())


@pytest.fixture
def slow() -> Slow:
    return Slow()


def test_each_gets_its_own_and_batches_form(slow: Slow) -> None:
    sizes: list[int] = []
    batcher = Batcher(slow, LIMITS, sizes.append)
    words = [f"w{i}" for i in range(8)]
    assert together(batcher, slow, words) == [w + "!" for w in words]
    assert sum(sizes) == 8
    assert max(sizes) == 4  # the first went alone, the rest in batches of at most four
    assert len(sizes) <= 4
    batcher.close()


def test_versions_are_not_mixed(slow: Slow) -> None:
    batcher = Batcher(slow, LIMITS)
    together(batcher, slow, ["a", "b", "c", "d"], ["v1", "v2", "v1", "v2"])
    assert all(version == {"a": "v1", "c": "v1"}.get(w, "v2") for version, ws in slow.batches for w in ws)
    batcher.close()


def test_a_full_queue_refuses_and_recovers(slow: Slow) -> None:
    batcher = Batcher(slow, LIMITS)
    made = together(batcher, slow, [f"w{i}" for i in range(20)])
    refused = [m for m in made if isinstance(m, Refusal)]
    assert {m.status for m in refused} == {429}
    assert 8 <= len(made) - len(refused) <= 9  # those in the queue, and the one that was being tagged
    assert together(batcher, slow, ["again"]) == ["again!"]
    batcher.close()


def test_characters_are_bounded_too(slow: Slow) -> None:
    batcher = Batcher(slow, replace(LIMITS, queue_characters=10))
    made = together(batcher, slow, ["w", "x" * 8, "y" * 8])
    assert [isinstance(m, Refusal) for m in made] == [False, False, True]
    batcher.close()


def test_one_bad_request_harms_no_other(slow: Slow) -> None:
    batcher = Batcher(slow, LIMITS)
    made = together(batcher, slow, ["first", "a", "bad", "wrong"])
    assert made[:2] == ["first!", "a!"]
    assert (made[2].status, made[3].status) == (500, 422)
    assert made[3].fix == "write it right"
    batcher.close()


def test_time_is_up(slow: Slow) -> None:
    batcher = Batcher(slow, replace(LIMITS, seconds=0.1))

    async def run() -> None:
        for word in ("a", "b"):  # a is being tagged while b waits
            with pytest.raises(Refusal) as caught:
                await ask(batcher, word)
            assert (caught.value.status, caught.value.code) == (503, "timeout")

    asyncio.run(run())
    slow.go.set()
    time.sleep(0.1)
    assert [words for _, words in slow.batches] == [["a"]]  # nobody waits for b any more: it is not tagged
    batcher.close()


def test_closing_refuses_what_waits(slow: Slow) -> None:
    batcher = Batcher(slow, LIMITS)

    async def run() -> list[Any]:
        tasks = []
        for word in ("a", "b"):
            tasks.append(asyncio.create_task(ask(batcher, word)))
            await asyncio.sleep(0.1)
        threading.Timer(0.1, slow.go.set).start()
        await asyncio.to_thread(batcher.close)
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second = asyncio.run(run())
    assert first == "a!"
    assert second.code == "stopping"
    with pytest.raises(Refusal):
        asyncio.run(ask(batcher, "c"))
