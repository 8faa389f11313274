"""The server under load: micro-batching against one request at a time, refusals, memory, and time to adapt.

    python benchmarks/server.py                          # 10,000 requests of 32 clients, 50,000 for memory
    python benchmarks/server.py --requests 1000 --memory 2000 --adapt

Three processes: the server, 32 clients over plain sockets, and this one. The rival is the same tagger called with
one text after the other in a process of its own, without any HTTP; it is timed before and after, on the same texts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

SETTINGS = {"train": {"epochs": 4}, "device": "cpu"}
DOMAIN, NEW_DOMAIN = "news", "kitchen"
SINGLE = 400  # texts of the rival, each time


def main() -> None:
    options = _options()
    if options.role:
        ROLES[options.role](json.loads(options.given))
        return
    from common import machine  # brings torch, which the clients do not need

    with tempfile.TemporaryDirectory() as scratch:
        model = options.model or train(Path(scratch) / "model")
        texts = Path(scratch) / "texts.json"
        texts.write_text(json.dumps(_texts(options.texts)), encoding="utf-8")
        found: dict[str, Any] = {"title": "The server, CNN-BiGRU-CRF", "machine": machine()}
        found |= _throughput(model, texts, Path(scratch), options)
        found["overload"] = _overload(model, texts, Path(scratch))
        found["memory"] = _memory(model, texts, Path(scratch), options.memory)
        if options.adapt:
            start = options.start or _pretrain(Path(scratch) / "pretrained")
            found["adaptation"] = _adaptation(start, Path(scratch))
    print(json.dumps(found, indent=2))
    if options.out:
        options.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", type=Path, help="a run folder; by default one is trained on built-in news")
    parser.add_argument("--texts", type=Path, help="a file with a text a line; by default built-in news")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--memory", type=int, default=50_000, help="requests over which memory is watched")
    parser.add_argument("--adapt", action="store_true", help="also time an adaptation to 20 new sentences")
    parser.add_argument("--start", type=Path, help="the folder that is adapted; by default one is pretrained")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--role", choices=tuple(ROLES), help=argparse.SUPPRESS)
    parser.add_argument("--given", help=argparse.SUPPRESS)
    return parser.parse_args()


def train(folder: Path) -> Path:
    """A tagger of the paper's size; how good it is does not matter here."""
    from nershift.data.builtin import builtin_corpus
    from nershift.run import transfer

    transfer("target_only", builtin_corpus(DOMAIN), out=folder, config=SETTINGS, quiet=True, report=False)
    return folder


def _pretrain(folder: Path) -> Path:
    """The same encoder from the built-in domains but the new one, each with its own types."""
    from nershift.data.builtin import BUILTIN_DOMAINS, builtin_corpus
    from nershift.run import pretrain

    sources = [builtin_corpus(domain) for domain in BUILTIN_DOMAINS if domain != NEW_DOMAIN]
    settings = {"pretrain": {"epochs": 2}, "device": "cpu"}
    return pretrain("finetune", sources, out=folder, config=settings, quiet=True)


def _texts(path: Path | None) -> list[str]:
    if path:
        return [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    from nershift.data.builtin import builtin_corpus

    return [s.to_text()[0] for s in builtin_corpus(DOMAIN).test]


def _throughput(model: Path, texts: Path, scratch: Path, options: argparse.Namespace) -> dict[str, Any]:
    rival = [_role("single", model=str(model), texts=str(texts))]
    load = {"texts": str(texts), "clients": options.clients, "requests": options.requests}
    with Server(model, scratch / "batched") as server:
        _role("clients", **{**load, "requests": 10 * options.clients, "port": server.port})  # warm-up
        alone = _role("clients", **{**load, "clients": 1, "requests": SINGLE, "port": server.port})
        ours = _role("clients", **{**load, "port": server.port})
    with Server(model, scratch / "one", batch_requests=1) as server:
        _role("clients", **{**load, "requests": 10 * options.clients, "port": server.port})
        share = max(options.requests // 4, SINGLE)
        unbatched = _role("clients", **{**load, "requests": share, "port": server.port})
    rival.append(_role("single", model=str(model), texts=str(texts)))
    per_second = statistics.mean(row["per_second"] for row in rival)
    latency = statistics.mean(row["median_ms"] for row in rival)
    return {
        "one_at_a_time": {"per_second": per_second, "median_ms": latency, "runs": rival},
        "server": ours,
        "server_one_client": alone,
        "server_without_batching": unbatched,
        "ratio": ours["per_second"] / per_second,
        "ratio_without_batching": ours["per_second"] / unbatched["per_second"],
        "p99_over_single_latency": ours["p99_ms"] / latency,
    }


def _overload(model: Path, texts: Path, scratch: Path) -> dict[str, Any]:
    """Twice as many clients as may wait: some are told 429, none gets anything else, and all is well after."""
    with Server(model, scratch / "small", queue=8, batch_requests=4) as server:
        load = {"texts": str(texts), "port": server.port}
        pressed = _role("clients", **load, clients=64, requests=2000)
        after = _role("clients", **load, clients=4, requests=200)
    return {"statuses": pressed["statuses"], "statuses_after": after["statuses"]}


def _memory(model: Path, texts: Path, scratch: Path, requests: int) -> dict[str, Any]:
    with Server(model, scratch / "memory") as server:
        load = {"texts": str(texts), "port": server.port, "clients": 32}
        _role("clients", **load, requests=max(requests // 10, 500))
        sizes = [server.megabytes()]
        for _ in range(5):
            _role("clients", **load, requests=requests // 5)
            sizes.append(server.megabytes())
    return {"requests": requests, "megabytes": sizes, "growth": sizes[-1] / sizes[0] - 1}


def _adaptation(start: Path, scratch: Path) -> dict[str, Any]:
    """Seconds from 20 corrected sentences to the tagger that serves, and F1 on held-out sentences."""
    from nershift.data.builtin import builtin_corpus
    from nershift.data.spans import Sentence
    from nershift.evaluation.metrics import score

    corpus = builtin_corpus(NEW_DOMAIN)
    given = [
        {
            "tokens": s.tokens,
            "entities": [{"token_start": x.start, "token_end": x.end, "label": x.label} for x in s.spans],
        }
        for s in corpus.train[:20]
    ]
    test = corpus.test[:100]
    with Server(start, scratch / "adapting") as server:
        began, ready = time.monotonic(), None
        job = server.ask("/adapt", {"sentences": given})["job"]
        while (told := server.ask(f"/jobs/{job}"))["state"] not in ("done", "failed", "cancelled"):
            if told["version"] and ready is None:
                ready = time.monotonic() - began
            time.sleep(0.2)
        if told["state"] != "done":
            raise SystemExit(f"the adaptation failed: {told['message']}")
        answer = server.ask("/tag", {"tokens": [s.tokens for s in test]})
    tagged = [
        Sentence.of(s.tokens, [(e["token_start"], e["token_end"], e["label"]) for e in row["entities"]])
        for s, row in zip(test, answer["results"], strict=True)
    ]
    return {
        "sentences": len(given),
        "seconds_to_tagger": ready,
        "seconds_with_cross_validation": told["seconds"],
        "test_f1": score(test, tagged).f1,
        "cross_validated_f1": told["f1"],
    }


class Server:
    """A server in a process of its own."""

    def __init__(self, model: Path, store: Path, **limits: Any) -> None:
        given = json.dumps({"model": str(model), "store": str(store), "limits": limits})
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--role", "serve", "--given", given], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def __enter__(self) -> Server:
        for _ in range(100):
            try:
                self.ask("/health")
            except OSError:
                time.sleep(0.1)
            else:
                return self
        raise SystemExit("the server did not start")

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait(20)

    def ask(self, path: str, body: Any = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def megabytes(self, which: str = "VmRSS") -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024


def _role(name: str, **given: Any) -> dict[str, Any]:
    command = [sys.executable, __file__, "--role", name, "--given", json.dumps(given)]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(made.stdout)
    return found


# -- what the other processes do ---------------------------------------------------------------------------


def serve(given: dict[str, Any]) -> None:
    from nershift.server.limits import Limits
    from nershift.server.run import listen, run
    from nershift.server.security import Guard
    from nershift.server.service import Service

    service = Service(Path(given["model"]), Path(given["store"]), Limits(**given["limits"]))
    listening = listen("127.0.0.1", 0)
    print(listening.getsockname()[1], flush=True)
    run(service, Guard(), listening, quiet=True)


def single(given: dict[str, Any]) -> None:
    """The rival: one text after the other, nothing in between; the better of one thread and of all of them."""
    import torch

    from nershift.tagger.tagger import Tagger

    texts = json.loads(Path(given["texts"]).read_text(encoding="utf-8"))
    tagger = Tagger.load(given["model"])
    best: dict[str, float] = {}
    for threads in (1, torch.get_num_threads()):
        torch.set_num_threads(threads)
        for text in texts[:30]:
            tagger(text)
        times = []
        for k in range(SINGLE):
            began = time.perf_counter()
            tagger(texts[k % len(texts)])
            times.append(time.perf_counter() - began)
        row = {
            "per_second": len(times) / sum(times),
            "median_ms": 1e3 * statistics.median(times),
            "threads": threads,
        }
        best = max(best, row, key=lambda r: r.get("per_second", 0.0))
    print(json.dumps(best))


def clients(given: dict[str, Any]) -> None:
    texts = json.loads(Path(given["texts"]).read_text(encoding="utf-8"))
    bodies = [json.dumps({"texts": [text]}).encode() for text in texts]
    head = "POST /tag HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
    requests = [head.format(len(body)).encode() + body for body in bodies]
    times, statuses, seconds = asyncio.run(_press(given, requests))
    times.sort()
    print(
        json.dumps(
            {
                "requests": len(times),
                "clients": given["clients"],
                "per_second": len(times) / seconds,
                "median_ms": 1e3 * statistics.median(times),
                "p99_ms": 1e3 * times[int(0.99 * (len(times) - 1))],
                "statuses": statuses,
            }
        )
    )


async def _press(given: dict[str, Any], requests: list[bytes]) -> tuple[list[float], dict[str, int], float]:
    """Each client sends its next request when the last one is answered."""
    times: list[float] = []
    statuses: dict[str, int] = {}
    left = iter(range(given["requests"]))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", given["port"])
        for k in left:
            began = time.perf_counter()
            writer.write(requests[k % len(requests)])
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(size)
            times.append(time.perf_counter() - began)
            status = head[9:12].decode()
            statuses[status] = statuses.get(status, 0) + 1
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(given["clients"])))
    return times, statuses, time.perf_counter() - began


ROLES = {"serve": serve, "single": single, "clients": clients}

if __name__ == "__main__":
    main()
