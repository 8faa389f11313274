"""What a run reports while it trains: `log.jsonl`, a progress bar, and TensorBoard if set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nershift.errors import MissingExtraError
from nershift.storage import replace_file


class TrainLogger:
    """Appends one JSON object per line and shows progress; ``lines`` is saved in checkpoints.

    A resumed run cuts the file back to the lines its checkpoint counted: the log reads as if nothing had happened.
    """

    def __init__(self, folder: Path, *, quiet: bool = False, tensorboard: bool = False, main: bool = True) -> None:
        self.path = folder / "log.jsonl"
        self.main = main
        self.lines = 0
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=quiet or not main,
        )
        self.board: Any = None
        if tensorboard and main:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise MissingExtraError("tensorboard", "tensorboard", "logging to TensorBoard") from None
            self.board = SummaryWriter(str(folder / "tensorboard"))

    def __enter__(self) -> TrainLogger:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()
        if self.board is not None:
            self.board.close()

    def rewind(self, lines: int) -> None:
        """Keep only the first ``lines`` entries."""
        self.lines = lines
        if not self.main or not self.path.exists():
            return
        kept = self.path.read_bytes().split(b"\n")[:lines]
        replace_file(self.path, lambda p: p.write_bytes(b"".join(line + b"\n" for line in kept)))

    def write(self, entry: dict[str, Any], step: int) -> None:
        self.lines += 1
        if not self.main:
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        if self.board is not None:
            for name, value in entry.items():
                if isinstance(value, float):
                    self.board.add_scalar(f"{entry['phase']}/{name}", value, step)

    def entries(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").split("\n") if line]
