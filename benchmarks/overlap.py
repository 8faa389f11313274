"""Recorded training steps of several runs at once on one GPU against those of one run alone.

    python benchmarks/overlap.py --device cuda [--runs 12] [--shares 100 25 12] [--methods datnet …] [--json FILE]

A share is the part of the GPU's multiprocessors, in percent, that a run may use; it needs the multi-process service
(`nvidia-cuda-mps-control -d`). A ratio of 6 says that the runs together take six times the steps of one alone. The
corpora are built in; every run records its steps before the clock starts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from multiprocessing.synchronize import Barrier
from pathlib import Path

from common import Row, report
from recorded import run

WARM_UP = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--shares", type=int, nargs="+", default=[100, 25, 12])
    parser.add_argument("--methods", nargs="+", default=["target_only", "datnet"])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for method in options.methods:
        alone = together(method, 1, 100, options.steps, options.device)
        for share in options.shares:
            each = together(method, options.runs, share, options.steps, options.device)
            title = f"{method}, {options.runs} at once, {share}% each"
            rows.append(Row(title, alone, each / options.runs, extra={"ms a step of each": each}))
    report(f"A step, mean of {options.steps}", rows, "one run alone", options.device, options.json)


def together(method: str, runs: int, share: int, steps: int, device: str) -> float:
    """Milliseconds that a step of each run takes, on average, while all of them train."""
    os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(share)  # read by the processes started from here
    context = multiprocessing.get_context("spawn")
    ready, found = context.Barrier(runs), context.Queue()
    workers = [context.Process(target=_work, args=(method, steps, device, ready, found)) for _ in range(runs)]
    for worker in workers:
        worker.start()
    times = [found.get() for _ in workers]
    for worker in workers:
        worker.join()
    return sum(times) / runs


def _work(method: str, steps: int, device: str, ready: Barrier, found: multiprocessing.Queue[float]) -> None:
    run(method, True, WARM_UP, device)
    ready.wait()
    found.put(run(method, True, steps, device))


if __name__ == "__main__":
    main()
