"""Results that were never run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cells import Cell
from experiments.store import ResultStore, write_finished

ORIGIN = {"version": "0", "commit": "", "code": "c", "machine": "m"}


def finish(folder: Path, cell: Cell, metrics: Mapping[str, Any], counts: np.ndarray, **analysis: Any) -> None:
    write_finished(folder, cell, {"test": {}, **metrics}, counts, ORIGIN, **analysis)


def store(folder: Path) -> ResultStore:
    """The results that were finished in a folder, and those that were merged into it."""
    folder.mkdir(parents=True, exist_ok=True)
    return ResultStore(folder, folder)
