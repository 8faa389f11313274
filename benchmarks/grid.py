"""A grid of small runs, many at once against one after another.

Each run trains the recurrent tagger on a part of wikigold with a seed of its own. Both sides go through the same code,
`experiments.pool`, with one worker or with many, from an empty folder to the last result file, the start of the
workers included. A run that is not timed comes first: imports, which all workers share, and kernels that are compiled
once a machine are paid for by neither side. A run computes with OMP_NUM_THREADS threads on both, by default one.

    NERSHIFT_DATA=FOLDER python benchmarks/grid.py [--runs 100] [--workers 16] [--epochs 6] [--json FILE]

The results must agree within the seeds' own tolerance: the largest difference of a run's F1 between the two sides is
reported beside the standard deviation over the seeds, and the difference of the means in standard errors of the mean.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch
from common import Row, report

from experiments.cells import Cell
from experiments.pool import run_grid
from experiments.store import ResultStore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--shots", type=int, default=320)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    settings = {"encoder": {"words": {"size": 100}}, "train": {"epochs": options.epochs, "lr": 5e-3}}
    cells = [
        Cell("grid", "target_only", "wikigold", (), seed, settings, shots=options.shots)
        for seed in range(options.runs + 1)
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        timed_grid(cells[:1], root / "first", 1)
        many, at_once = timed_grid(cells[1:], root / "many", options.workers)
        single, one_by_one = timed_grid(cells[1:], root / "single", 1)
    change = [abs(a - b) for a, b in zip(at_once, one_by_one, strict=True)]
    deviation = statistics.stdev(one_by_one)
    shift = abs(statistics.mean(at_once) - statistics.mean(one_by_one))
    row = Row(
        f"{options.runs} runs",
        1e3 * single,
        1e3 * many,
        max(change),
        {
            "identical": sum(c == 0 for c in change),
            "mean F1, one by one": statistics.mean(one_by_one),
            "mean F1, many at once": statistics.mean(at_once),
            "sd over seeds": deviation,
            "shift in standard errors": shift * options.runs**0.5 / deviation if deviation else 0.0,
        },
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    report("A grid of runs", [row], "one after another", device, options.json)


def timed_grid(cells: list[Cell], folder: Path, workers: int | None) -> tuple[float, list[float]]:
    """Seconds for the whole grid, and the test F1 of each run."""
    folder.mkdir()
    store = ResultStore(folder, folder / "work")
    began = time.perf_counter()
    outcome = run_grid(cells, store, workers=workers, quiet=True)
    seconds = time.perf_counter() - began
    if outcome.failed:
        raise SystemExit("\n".join(outcome.failed))
    results = [store.get(cell) for cell in cells]
    return seconds, [result.metrics["test"]["f1"] for result in results if result is not None]


if __name__ == "__main__":
    main()
