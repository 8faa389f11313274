"""What a run reports while it trains: `log.jsonl`, a progress bar or lines, and TensorBoard if set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from nershift.console import make_console, say
from nershift.errors import MissingExtraError
from nershift.storage import replace_file


class _Bar:
    """A progress bar that is gone when the work is done."""

    def __init__(self, console: Console, silent: bool) -> None:
        note = TextColumn("{task.fields[note]}")
        columns = TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), note
        self._bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=silent)
        self._task: TaskID | None = None

    def start(self) -> None:
        if not self._bar.disable:  # rich before 14 prints empty lines even then
            self._bar.start()

    def stop(self) -> None:
        if not self._bar.disable:
            self._bar.stop()

    def begin(self, name: str, done: int, total: int) -> None:
        self._task = self._bar.add_task(name, total=total, completed=done, note="")

    def show(self, done: int, note: str) -> None:
        if self._task is not None:
            self._bar.update(self._task, completed=done, note=note)

    def end(self) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)


class _Lines:
    """Progress where a bar cannot move, in a log file or a notebook's cell: a line for each tenth of the work."""

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def begin(self, name: str, done: int, total: int) -> None:
        self._name, self._total, self._next = name, total, done
        self.show(done, "")

    def show(self, done: int, note: str) -> None:
        self._line = f"{self._name}: {done} of {self._total} updates{f', {note}' if note else ''}"
        self._told = done >= self._next
        if self._told:
            say(self._line, err=True)
            self._next = done + max(1, self._total // 10)

    def end(self) -> None:
        if not self._told:  # it ended early
            say(self._line, err=True)


class TrainLogger:
    """Appends one JSON object per line and shows progress; ``lines`` is saved in checkpoints.

    A resumed run cuts the file back to the lines its checkpoint counted: the log reads as if nothing had happened.
    """

    def __init__(self, folder: Path, *, quiet: bool = False, tensorboard: bool = False, main: bool = True) -> None:
        self.path = folder / "log.jsonl"
        self.main = main
        self.lines = 0
        console, silent = make_console(stderr=True), quiet or not main
        self.bar: _Bar | _Lines = _Bar(console, silent) if silent or console.is_terminal else _Lines()
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
