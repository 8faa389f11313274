"""The server under attack: hostile requests from several clients while `/health` is polled.

    python benchmarks/hostile.py                  # 200 requests of 8 clients; exit code 1 when a limit is missed
    python benchmarks/hostile.py --kinds dots headers --requests 40

Each client takes the next hostile request of a shuffled list: texts that are slow to split or to tag, bodies that are
large, deep or never end, headers without end, floods, clients that do not read. Another process asks for `/health`
every 20 ms, each time over a new connection. Told are the 99th percentile of its answers, the greatest memory of the
server and the statuses of all answers; 0 means that the connection was closed without one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

LIMITS = {"health_p99_ms": 250, "megabytes": 1500}
PATIENCE = 60.0  # seconds that a client waits for an answer
POLL = 0.02
Send = Callable[[int], Awaitable[int]]  # port → status


# -- hostile requests --------------------------------------------------------------------------------------


def post(body: bytes, path: str = "/tag", *, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n\r\n"
    )
    return head.encode() + body


def texts(*given: str) -> bytes:
    return post(json.dumps({"texts": given}).encode())


def tokens(rows: list[list[str]]) -> bytes:
    return post(json.dumps({"tokens": rows}).encode())


def labelled(path: str, sentences: list[dict[str, Any]], **more: Any) -> bytes:
    return post(json.dumps({"sentences": sentences, **more}).encode(), path)


def names(count: int) -> str:
    """Text in which much looks like an entity, without an end of a sentence."""
    words = ("Okafor", "flew", "from", "Leeds", "to", "Porto", "and", "Ada", "Ruiz", "met", "Novak", "in", "Graz")
    return " ".join(words[i % len(words)] for i in range(count))


def new_words(count: int) -> str:
    return " ".join(f"w{random.getrandbits(64):x}" for _ in range(count))


WHOLE: dict[str, Callable[[], bytes]] = {
    "dots": lambda: texts("." * 20_000),
    "most_dots": lambda: texts("." * 100_000, "?!" * 50_000),
    "entities": lambda: texts(names(6_500)),
    "most_entities": lambda: texts(names(16_000), names(16_000)),
    "no_spaces": lambda: texts("x" * 200_000),
    "two_without_spaces": lambda: texts("x" * 100_000, "1.2" * 33_000),
    "initials": lambda: texts("A." * 50_000, "-'’" * 33_000),
    "signs": lambda: texts("\u0301" * 100_000, "a\u0301" * 50_000),
    "chinese": lambda: texts("语" * 100_000, "。" * 100_000),
    "surrogates": lambda: post(b'{"texts": ["' + b"\\ud83d\\ude00" * 160_000 + b'"]}'),
    "lines": lambda: texts("\n".join("ab" for _ in range(33_000)), "a\n" * 50_000),
    "new_words": lambda: texts(*(new_words(600) for _ in range(18))),
    "long_words": lambda: tokens(
        [[f"{random.getrandbits(64):x}".ljust(200, "z") for _ in range(2_000)] for _ in range(4)]
    ),
    "token_lists": lambda: tokens([["a"] * 2_000] * 200),
    "huge_token_list": lambda: tokens([["a"] * 400_000]),
    "names_as_tokens": lambda: tokens([names(2_000).split()] * 8),
    "deep_lists": lambda: post(b"[" * 1_900_000),
    "deep_objects": lambda: post(b'{"texts":' * 200_000 + b"[]" + b"}" * 200_000),
    "empty_lists": lambda: post(b'{"texts": [' + b"[]," * 600_000 + b"[]]}"),
    "numbers": lambda: post(b'{"texts": [' + b"0," * 900_000 + b"0]}"),
    "huge_number": lambda: post(b'{"min_confidence": ' + b"9" * 1_900_000 + b', "texts": []}'),
    "many_fields": lambda: post(json.dumps({f"f{i}": i for i in range(100_000)}).encode()),
    "too_large": lambda: post(b'{"texts": ["' + b"x" * 3_000_000 + b'"]}'),
    "suggest": lambda: post(json.dumps({"texts": [names(16_000), "." * 90_000]}).encode(), "/suggest"),
    "export": lambda: labelled("/export", [{"tokens": ["a"] * 2_000, "entities": []}] * 200, format="conll"),
    "nested_labels": lambda: labelled(
        "/adapt",
        [
            {
                "tokens": ["a"] * 2_000,
                "entities": [{"token_start": 0, "token_end": i + 1, "label": "x"} for i in range(500)],
            }
        ]
        * 40,
    ),
    "form": lambda: (
        b"POST /adapt HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n{}"
    ),
    "garbage": lambda: random.randbytes(60_000),
    "escapes": lambda: b"GET /\x1b[2J%1b[2J?\x1b]0;x\x07=%1b HTTP/1.1\r\nhost: 127.0.0.1\r\nx: \x1b[31m\r\n\r\n",
    "two_lengths": lambda: b"POST /tag HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n{}",
    "many_headers": lambda: b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"a: b\r\n" * 100_000 + b"\r\n",
    "large_header": lambda: b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\na: " + b"b" * 5_000_000 + b"\r\n\r\n",
    "large_path": lambda: b"GET /" + b"b" * 5_000_000 + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
}


async def exchange(port: int, data: bytes) -> int:
    """Send it all and wait for the status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await _status(reader)
    finally:
        writer.close()


async def _status(reader: asyncio.StreamReader) -> int:
    head = b""
    with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.TimeoutError):
        head = await asyncio.wait_for(reader.readuntil(b"\r\n"), PATIENCE)
    return int(head[9:12] or 0)


async def unfinished(port: int) -> int:
    """Twenty bodies that stop before their last byte."""
    part = post(b"x" * 1_900_000, length=1_999_999)
    return min(await asyncio.gather(*(exchange(port, part) for _ in range(20))))


async def half_sent(port: int) -> int:
    return min(await asyncio.gather(*(exchange(port, b"POST /tag HTTP/1.1\r\nhost: 127.0.0.1\r\n") for _ in range(20))))


async def idle(port: int) -> int:
    return min(await asyncio.gather(*(exchange(port, b"") for _ in range(20))))


async def endless(port: int, head: bytes, part: bytes, pause: float) -> int:
    """Go on sending ``part`` until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = asyncio.create_task(_status(reader))
    with suppress(ConnectionError):
        writer.write(head)
        while not answer.done():
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)
    writer.close()
    return await answer


async def headers_without_end(port: int) -> int:
    return await endless(port, b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n", b"a: b\r\n" * 5_000, 0.001)


async def header_without_end(port: int) -> int:
    return await endless(port, b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\na: ", b"b" * 60_000, 0.001)


async def slow_header(port: int) -> int:
    return await endless(port, b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\na: ", b"b", 0.5)


async def body_without_end(port: int) -> int:
    head = (
        b"POST /tag HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    return await endless(port, head, b"10000\r\n" + b" " * 65_536 + b"\r\n", 0.001)


async def slow_body(port: int) -> int:
    return await endless(port, post(b"", length=1_000_000), b" ", 0.5)


async def flood(port: int) -> int:
    """Thousands of requests at once, whose answers nobody reads."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /openapi.json HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 20_000)
    with suppress(asyncio.TimeoutError, ConnectionError):
        await asyncio.wait_for(writer.drain(), 5)
    writer.transport.abort()
    return 0


async def deaf(port: int) -> int:
    """Ask for large answers and read none."""
    pairs = [await asyncio.open_connection("127.0.0.1", port, limit=1) for _ in range(4)]
    for _, writer in pairs:
        writer.write(texts(names(16_000)) * 4)
    await asyncio.sleep(10)
    for _, writer in pairs:
        writer.transport.abort()
    return 0


async def gone(port: int) -> int:
    """Ask for much and leave at once."""
    for _ in range(5):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(texts(names(16_000)))
        await writer.drain()
        writer.transport.abort()
    return 0


STRANGE = {f.__name__: f for f in (unfinished, half_sent, idle, headers_without_end, header_without_end, slow_header,
           body_without_end, slow_body, flood, deaf, gone)}  # fmt: skip


def hostile(kind: str) -> Send:
    if kind in STRANGE:
        return STRANGE[kind]
    data = WHOLE[kind]()
    return lambda port: exchange(port, data)


# -- the two processes that ask ----------------------------------------------------------------------------


def attack(given: dict[str, Any]) -> None:
    random.seed(1)
    kinds = (given["kinds"] * given["requests"])[: given["requests"]]
    random.shuffle(kinds)
    print(json.dumps(asyncio.run(_attack(given["port"], given["clients"], kinds))))


async def _attack(port: int, clients: int, kinds: list[str]) -> dict[str, Any]:
    statuses: dict[str, Counter[int]] = {kind: Counter() for kind in sorted(set(kinds))}
    slowest = dict.fromkeys(statuses, 0.0)
    left = iter(kinds)

    async def client() -> None:
        for kind in left:
            send, began, status = hostile(kind), time.perf_counter(), 0
            with suppress(ConnectionError):
                status = await send(port)
            statuses[kind][status] += 1
            slowest[kind] = max(slowest[kind], time.perf_counter() - began)

    await asyncio.gather(*(client() for _ in range(clients)))
    return {kind: {"statuses": dict(statuses[kind]), "slowest_s": round(slowest[kind], 2)} for kind in statuses}


def poll(given: dict[str, Any]) -> None:
    """Ask for `/health` until standard input closes."""
    asyncio.run(_poll(given["port"]))


async def _poll(port: int) -> None:
    times: list[float] = []
    asked: set[asyncio.Task[None]] = set()
    failed = 0

    async def ask() -> None:
        nonlocal failed
        began = time.perf_counter()
        try:
            failed += (
                await exchange(port, b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n") != 200
            )
        except ConnectionError:
            failed += 1
        times.append(1e3 * (time.perf_counter() - began))

    end = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    while not end.done():
        asked.add(task := asyncio.create_task(ask()))  # a slow answer does not put off the next question
        task.add_done_callback(asked.discard)
        await asyncio.sleep(POLL)
    await asyncio.gather(*asked)
    times.sort()
    at = {name: times[int(share * (len(times) - 1))] for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}
    print(json.dumps({"asked": len(times), "failed": failed, **{f"{k}_ms": round(v, 1) for k, v in at.items()}}))


# -- the run -----------------------------------------------------------------------------------------------


def main() -> None:
    options = _options()
    if options.role:
        {"attack": attack, "poll": poll}[options.role](json.loads(options.given))
        return
    from common import machine

    from server import Server, train

    with tempfile.TemporaryDirectory() as scratch:
        model = options.model or train(Path(scratch) / "model")
        with Server(model, Path(scratch) / "store") as server:
            server.ask("/tag", {"texts": [names(2_000)]})
            before = server.megabytes()
            calm = _while_polled(server.port, lambda: time.sleep(3))[1]
            found, health = _while_polled(server.port, lambda: _attackers(server.port, options))
            told = {"before_mb": before, "after_mb": server.megabytes(), "most_mb": server.megabytes("VmHWM")}
            answer = server.ask("/tag", {"texts": ["Okafor flew to Leeds ."]})
    report = {
        "title": "The server under attack",
        "machine": machine(),
        "requests": options.requests,
        "clients": options.clients,
        "health": health,
        "health_calm": calm,
        "memory": told,
        "tags_afterwards": len(answer["results"]) == 1,
        "kinds": found,
    }
    print(json.dumps(report, indent=2))
    if options.out:
        options.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    statuses = Counter(status for row in found.values() for status in map(int, row["statuses"]))
    wrong = [f"status {status}" for status in statuses if status >= 500 and status != 503]
    wrong += ["p99 of /health"] if health["p99_ms"] > LIMITS["health_p99_ms"] else []
    wrong += ["memory"] if told["most_mb"] > LIMITS["megabytes"] else []
    if wrong:
        raise SystemExit(f"missed: {', '.join(wrong)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", type=Path, help="a run folder; by default one is trained on built-in news")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--kinds", nargs="+", default=[*WHOLE, *STRANGE], choices=[*WHOLE, *STRANGE], metavar="KIND")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--given", help=argparse.SUPPRESS)
    return parser.parse_args()


def _role(name: str, **given: Any) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--role", name, "--given", json.dumps(given)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _while_polled(port: int, work: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    polling = _role("poll", port=port)
    made = work()
    return made, json.loads(polling.communicate()[0])


def _attackers(port: int, options: argparse.Namespace) -> dict[str, Any]:
    attacking = _role("attack", port=port, clients=options.clients, requests=options.requests, kinds=options.kinds)
    found: dict[str, Any] = json.loads(attacking.communicate()[0])
    return found


if __name__ == "__main__":
    main()
