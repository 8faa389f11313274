"""A stage run by the loop, to its end or to a stop."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from nershift.training.logger import TrainLogger
from nershift.training.loop import Loop
from nershift.training.processes import Processes
from nershift.training.stage import TrainingStage


def run_loop(stage: TrainingStage, folder: Path, stop_after: int | None = None) -> dict[str, Tensor]:
    folder.mkdir(exist_ok=True)
    with Processes("cpu") as processes, TrainLogger(folder, quiet=True) as logger:
        loop = Loop(stage, folder, processes, logger)
        processes.stop_asked = lambda: loop.progress.step == stop_after  # type: ignore[method-assign]
        loop.run()
    return {n: p.detach().clone() for n, p in stage.model.named_parameters()}
