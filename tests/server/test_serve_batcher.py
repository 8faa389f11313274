from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from nershift.data.spans import Sentence
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

    def __call__(self, version: str, sentences: Sequence[Sentence]) -> list[Tagged]:
        self.go.wait(5)
        words = [s.tokens[0] for s in sentences]
        self.batches.append((version, words))
        if "bad" in words:
            raise ValueError("bad")
        if "wrong" in words:
            raise DataError("wrong", fix="write it right")
        return [Tagged((), 0.5) for _ in sentences]


async def ask(batcher: Batcher, word: str, version: str = "v1", sentences: int = 1) -> str:
    def finish(readings: list[Reading], tagged: list[list[Tagged]]) -> str:
        assert len(tagged) == len(readings) == sentences
        assert all(len(row) == 1 for row in tagged)
        return f"{readings[0].tokens[0]}!"

    def read() -> list[Reading]:
        return [Reading.of_tokens([word]) for _ in range(sentences)]

    made: str = await batcher.submit(version, read, finish, max(len(word), sentences))
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


def test_tokens_are_bounded_too(slow: Slow) -> None:
    batcher = Batcher(slow, replace(LIMITS, queue_tokens=10))
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


def test_a_long_request_takes_turns(slow: Slow) -> None:
    """Those that come after it are answered before it, and no batch is larger than it may be."""
    batcher = Batcher(slow, replace(LIMITS, batch_tokens=40, batch_requests=64))

    async def run() -> list[str]:
        order: list[str] = []

        async def note(word: str, sentences: int) -> None:
            order.append(await ask(batcher, word, sentences=sentences))

        tasks = [asyncio.create_task(note("long", 400))]
        await asyncio.sleep(0.05)
        tasks += [asyncio.create_task(note(word, 1)) for word in ("a", "b")]
        await asyncio.sleep(0.05)
        slow.go.set()
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(run()) == ["a!", "b!", "long!"]
    assert max(len(words) for _, words in slow.batches) == 40
    assert sum(len(words) for _, words in slow.batches) == 402
    batcher.close()


def test_several_long_requests_share_their_batches(slow: Slow) -> None:
    batcher = Batcher(slow, replace(LIMITS, batch_tokens=40, batch_requests=64))

    async def run() -> None:
        tasks = [asyncio.create_task(ask(batcher, word, sentences=100)) for word in ("a", "b", "c", "d")]
        await asyncio.sleep(0.05)
        slow.go.set()
        await asyncio.gather(*tasks)

    asyncio.run(run())
    assert any(len(set(words)) == 4 for _, words in slow.batches)
    batcher.close()


def test_a_request_that_is_too_long_is_refused_before_it_is_read(slow: Slow) -> None:
    batcher = Batcher(slow, replace(LIMITS, tokens=100))

    async def run() -> None:
        with pytest.raises(Refusal) as caught:
            await batcher.submit("v1", lambda: pytest.fail("read"), lambda *_: None, 101)
        assert (caught.value.status, caught.value.code) == (413, "too_long")

    asyncio.run(run())
    batcher.close()


def test_a_long_request_that_fails_half_way_harms_no_other(slow: Slow) -> None:
    batcher = Batcher(slow, replace(LIMITS, batch_tokens=8))

    def read() -> list[Reading]:
        return [Reading.of_tokens([word]) for word in ["good"] * 20 + ["bad"] + ["good"] * 20]

    async def run() -> list[Any]:
        bad = asyncio.create_task(batcher.submit("v1", read, lambda *_: None, 41))
        fine = asyncio.create_task(ask(batcher, "fine", sentences=41))
        await asyncio.sleep(0.05)
        slow.go.set()
        return await asyncio.gather(bad, fine, return_exceptions=True)

    bad, fine = asyncio.run(run())
    assert (bad.status, fine) == (500, "fine!")
    batcher.close()


def test_stopping_refuses_what_is_half_done(slow: Slow) -> None:
    batcher = Batcher(slow, replace(LIMITS, batch_tokens=8))

    async def run() -> Any:
        task = asyncio.create_task(ask(batcher, "long", sentences=200))
        await asyncio.sleep(0.05)
        batcher.stop()
        slow.go.set()
        return (await asyncio.gather(task, return_exceptions=True))[0]

    refused = asyncio.run(run())
    assert (refused.status, refused.code) == (503, "stopping")
    assert len(slow.batches) == 1
    batcher.close()


def test_work_does_not_print_its_texts(slow: Slow) -> None:
    """Looking for a request in the queue once built a message of all its words, and stopped the server for seconds."""
    batcher = Batcher(slow, replace(LIMITS, seconds=0.1))
    shown: list[str] = []

    class Loud(str):
        def __repr__(self) -> str:
            shown.append(self)
            return "loud"

    async def run() -> None:
        with pytest.raises(Refusal):
            await ask(batcher, Loud("word"))

    asyncio.run(run())
    slow.go.set()
    batcher.close()
    assert not shown
