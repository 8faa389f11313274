"""Trains in forked processes that are killed without warning, again and again, until one comes through.

Usage: python killed_run.py FOLDER KILLS SEED. Writes the run FOLDER/whole, which nobody kills,
FOLDER/cut0 (cut1, … as needed), and FOLDER/kills.json, which tells of each kill what it hit.
The packages are imported once, before forking, so that each try costs only its training.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import nershift.storage
import nershift.training.logger
from nershift import builtin_corpus
from nershift.data.corpus import Corpus
from nershift.run import transfer

SETTINGS: dict[str, Any] = {
    "device": "cpu",
    "encoder": {"words": {"size": 12}, "chars": {"filters": 12}, "recurrent": {"size": 16}, "dropout": 0.5},
    "pretrain": {"epochs": 6, "batch_size": 8, "checkpoint_steps": 4, "schedule": "inverse", "lr": 0.01},
    "train": {"epochs": 14, "batch_size": 8, "checkpoint_steps": 3, "patience": 12, "lr": 0.01},
}


def corpus(domain: str, train: int) -> Corpus:
    whole = builtin_corpus(domain)
    return whole.with_splits(train=whole.train[:train], dev=whole.dev[:20], test=whole.test[:20])


TARGET, SOURCES = corpus("clinic", 64), [corpus("news", 64), corpus("court", 48)]


def train(out: Path) -> None:
    transfer("finetune", TARGET, SOURCES, out=out, config=SETTINGS, quiet=True, report=False)


def write_slowly() -> None:
    """Make every file of a run stay half-written, and then unmoved, for a while."""
    original = nershift.storage.replace_file

    def slow(path: Path, write: Callable[[Path], object]) -> None:
        def dawdle(temporary: Path) -> None:
            write(temporary)
            content = temporary.read_bytes()
            temporary.write_bytes(content[: len(content) // 2])
            time.sleep(0.01)
            temporary.write_bytes(content)
            time.sleep(0.01)

        original(path, dawdle)

    nershift.storage.replace_file = nershift.training.logger.replace_file = slow


def start(out: Path) -> int:
    child = os.fork()
    if child:
        return child
    try:
        write_slowly()
        train(out)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def ended(child: int) -> int | None:
    done, status = os.waitpid(child, os.WNOHANG)
    return status if done else None


def progress(out: Path) -> str:
    """Which files of the run's state are there: tells how far a run has come when it is killed."""
    return " ".join(sorted(p.name for p in (out / "state").glob("[!.]*")))


def kill_one(child: int, out: Path, rng: random.Random, whole: float, in_write: bool) -> tuple[int, dict[str, Any]]:
    """Kill after a random part of the ``whole`` seconds that a run takes, or at the first write of this very child
    after it; returns what was hit."""
    delay = rng.uniform(0.03, 0.2) * whole
    began = time.monotonic()
    while (status := ended(child)) is None:
        if time.monotonic() - began > delay:
            # Only the files of this process: those of one killed before may still lie about.
            writing = [p.name for p in out.rglob(f".*.{child}.tmp")]
            if writing or not in_write:
                os.kill(child, signal.SIGKILL)
                status = os.waitpid(child, 0)[1]
                return status, {"delay": delay, "writing": writing, "state": progress(out)}
        time.sleep(0.001)
    return status, {}


def main() -> None:
    folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])  # imports what the first optimiser imports
    began = time.monotonic()
    if os.waitpid(start(folder / "whole"), 0)[1] != 0:
        sys.exit("the run that nobody kills failed")
    whole = time.monotonic() - began  # a busy machine is given more time between kills
    rng = random.Random(seed)
    killed: list[dict[str, Any]] = []
    for number in itertools.count():  # a quick machine ends a run before it was killed often enough
        come_through(folder / f"cut{number}", rng, whole, kills, killed)
        if len(killed) == kills:
            break
    (folder / "kills.json").write_text(json.dumps(killed, indent=1))


def come_through(out: Path, rng: random.Random, whole: float, kills: int, killed: list[dict[str, Any]]) -> None:
    """Start one run again and again until it ends by itself, killing it while kills are left."""
    while True:
        child = start(out)
        if len(killed) < kills:
            status, hit = kill_one(child, out, rng, whole, in_write=len(killed) % 2 == 0)
        else:
            status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            killed.append(hit)
        elif status == 0:
            return
        else:
            sys.exit("a run that was killed did not resume")


if __name__ == "__main__":
    main()
