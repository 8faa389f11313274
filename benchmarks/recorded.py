"""Recorded training steps against plain ones: a step's time over a whole short run, the recording included.

    python benchmarks/recorded.py --device cuda [--json FILE]

The corpora are built in. Without a GPU there is nothing to record, and the two are alike.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
from common import Row, report

from nershift.config import build
from nershift.data.builtin import builtin_corpus
from nershift.methods import get_method
from nershift.methods.base import Setup
from nershift.run import resolve
from nershift.training.logger import TrainLogger
from nershift.training.loop import Loop
from nershift.training.processes import Processes

METHODS = ("target_only", "multitask", "datnet", "crosslm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()
    rows = []
    for method in METHODS:
        run(method, True, 40, options.device)  # compiles what has to be compiled
        plain, recorded = (run(method, record, options.steps, options.device) for record in (False, True))
        rows.append(Row(method, plain, recorded))
    report(f"A training step, mean of {options.steps}", rows, "plain", options.device, options.json)


def run(method: str, record: bool, steps: int, device: str) -> float:
    """Milliseconds a step."""
    train = {
        "optimizer": "adam", "lr": 1e-3, "batch_size": 32, "max_steps": steps, "epochs": steps, "cuda_graphs": record,
    }  # fmt: skip
    config = resolve(method, {"device": device, "train": train, "pretrain": train})
    cls, target = get_method(method), builtin_corpus("clinic")
    sources = () if method == "target_only" else (builtin_corpus("news"),)
    made = cls(Setup(config, build(cls.Options, config.options), target, target.types, sources))
    stage = made.train(None)
    assert stage is not None
    stage.dev, stage.steps_per_epoch = [], steps  # no look at dev meanwhile
    stage.validate = lambda: None  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder, Processes(device) as processes:
        stage.model.to(processes.device)
        with TrainLogger(Path(folder), quiet=True) as logger:
            began = time.perf_counter()
            Loop(stage, Path(folder), processes, logger).run()
            if processes.device.type == "cuda":
                torch.cuda.synchronize()
            return 1000 * (time.perf_counter() - began) / steps


if __name__ == "__main__":
    main()
