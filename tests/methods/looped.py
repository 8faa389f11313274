"""A phase run by the loop, to its end or to a stop."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from nershift.train.journal import Journal
from nershift.train.loop import Loop
from nershift.train.phase import Phase
from nershift.train.processes import Processes


def run_loop(phase: Phase, folder: Path, stop_after: int | None = None) -> dict[str, Tensor]:
    folder.mkdir(exist_ok=True)
    with Processes("cpu") as processes, Journal(folder, quiet=True) as journal:
        loop = Loop(phase, folder, processes, journal)
        processes.stop_asked = lambda: loop.progress.step == stop_after  # type: ignore[method-assign]
        loop.run()
    return {n: p.detach().clone() for n, p in phase.model.named_parameters()}
