"""Exact nearest sentences in blocks, against the full table of similarities and a sort of it.

The baseline is what most scripts do: all similarities at once, the diagonal struck out, a full argsort. It needs the
square of the number of sentences in memory, so it is timed on a part of the queries and scaled up; `matmul` is the bare
product of all vectors, below which no exact search can go without symmetry.

    python benchmarks/retrieval.py [--device cuda] [--sentences 15000] [--size 512] [--million] [--json FILE]

``--million`` also searches a million vectors for a thousand queries and reports the peak memory beyond the vectors;
on a GPU they stay in main memory and pass through it block by block, and the peak is all that the GPU held.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import torch
from common import Row, report, time_rivals
from torch import Tensor

from nershift.methods.metacross.retrieval import top_k, unit

K = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sentences", type=int, default=15_000)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--million", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    vectors = unit(torch.randn(options.sentences, options.size)).to(options.device)
    rows = [measure(vectors, options)]
    if options.million:
        rows.append(million(options))
    report("Nearest sentences", rows, "sorting all", options.device, options.json)


def measure(vectors: Tensor, options: argparse.Namespace) -> Row:
    own = torch.arange(len(vectors), device=vectors.device)
    part = max(1, len(vectors) // 20)

    def by_sorting() -> Tensor:
        scores = vectors[:part] @ vectors.T
        scores[own[:part], own[:part]] = float("-inf")
        return scores.argsort(1, descending=True)[:, :K]

    rivals = {
        "sort": by_sorting,
        "ours": lambda: top_k(vectors, vectors, K, own),
        "product": lambda: vectors[:part] @ vectors.T,
    }
    times = time_rivals(rivals, options.device, options.seconds, warm_up=1)
    scale = len(vectors) / part
    wrong = float((top_k(vectors, vectors, K, own)[0][:part] != by_sorting()).float().mean())
    extra = {"bare product, ms": scale * times["product"], "rows that differ": wrong}
    name = f"{len(vectors)} x {vectors.shape[1]} among themselves"
    return Row(name, scale * times["sort"], times["ours"], extra={**extra})


def million(options: argparse.Namespace) -> Row:
    device, part = options.device, 10_000
    queries = unit(torch.randn(1000, options.size, device=device))
    keys = torch.empty(1_000_000, options.size)
    for start in range(0, len(keys), part):  # without a second copy of the whole
        keys[start : start + part] = unit(torch.randn(part, options.size, device=device))
    before = held(device)
    began = time.perf_counter()
    top_k(queries, keys, K)[0].cpu()
    took = 1e3 * (time.perf_counter() - began)
    grown = held(device) - (0 if device.startswith("cuda") else before)
    few = queries[:20].cpu()
    began = time.perf_counter()
    (few @ keys.T).argsort(1, descending=True)
    sorting = 50e3 * (time.perf_counter() - began)
    extra: dict[str, float | str] = {"peak beyond vectors, MiB": grown}
    return Row(f"1000 in 1000000 x {options.size} (sorting on the CPU)", sorting, took, extra=extra)


def held(device: str) -> float:
    """MiB that were held at most until now."""
    if device.startswith("cuda"):
        found = torch.cuda.max_memory_allocated() / 2**20
        torch.cuda.reset_peak_memory_stats()
        return found
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
