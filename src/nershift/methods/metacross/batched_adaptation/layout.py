"""Which rows of a batch belong to which task: a sentence may be several windows, and tasks may share sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from nershift.text.subwords import Pieces


def windows(prepared: Sequence[Pieces]) -> list[int]:
    """The number of rows that the encoder makes of each sentence."""
    return [len(pieces.ids) for pieces in prepared]


class Layout:
    """The rows of a batch by task.

    A layer inside the encoder sees one row per window, the head one row per sentence. The number of rows tells which:
    there are as many windows as sentences only if each sentence is one window.

    Args:
        counts: windows of each sentence.
        tasks: the sentences of each task.
    """

    def __init__(
        self, counts: Sequence[int], tasks: Sequence[Sequence[int]], device: torch.device | str = "cpu"
    ) -> None:
        starts = [0, *accumulate(counts)]
        self.tasks, self.windows = len(tasks), starts[-1]
        self._rows = {len(counts): _Rows(tasks, len(counts), device)}
        if self.windows != len(counts):
            in_windows = [[row for s in task for row in range(starts[s], starts[s + 1])] for task in tasks]
            self._rows[self.windows] = _Rows(in_windows, self.windows, device)

    @classmethod
    def one_each(cls, counts: Sequence[int], device: torch.device | str = "cpu") -> Layout:
        """One task per sentence."""
        return cls(counts, [[n] for n in range(len(counts))], device)

    def of_tasks(self, x: Tensor, zero: bool = True) -> Tensor:
        """[R, P, ...] → [T, P', ...]: the rows of each task, one after another.

        Tasks have unequal numbers of rows; shorter ones are filled up with zeros, or with anything if not ``zero``.
        """
        rows = self._rows[len(x)]
        if rows.in_order:
            return x.reshape(self.tasks, -1, *x.shape[2:])
        taken = x[rows.index]  # [T, W, P, ...]
        if zero and not rows.full:
            taken = taken * rows.valid.view(*rows.valid.shape, *[1] * (taken.ndim - 2))
        return taken.flatten(1, 2)

    def of_rows(self, x: Tensor, rows: int) -> Tensor:
        """[T, ...] → [R, ...]: for each row the entry of its task."""
        task = self._rows[rows].task
        return x if task is None else x[task]

    def folded(self, x: Tensor) -> Tensor:
        """[R, ..., H] → [T, S, H] where the rows of each task lie together, else [R, S, H]."""
        rows = self._rows[len(x)]
        return x.reshape(self.tasks if rows.in_order else len(x), -1, x.shape[-1])

    def of_folded(self, x: Tensor, rows: int) -> Tensor:
        """[T, ...] → the entry of its task for each row of what :meth:`folded` makes of ``rows`` rows."""
        return x if self._rows[rows].in_order else self.of_rows(x, rows)


class _Rows:
    def __init__(self, tasks: Sequence[Sequence[int]], rows: int, device: torch.device | str) -> None:
        width = max(len(task) for task in tasks)
        index = torch.tensor([[*task, *[0] * (width - len(task))] for task in tasks])  # [T, W]
        valid = torch.tensor([[i < len(task) for i in range(width)] for task in tasks])
        self.full = bool(valid.all())
        self.in_order = self.full and index.flatten().tolist() == list(range(rows))
        # Rows that are in order already need no index. Copies to a GPU do not wait for it.
        place = "cpu" if self.in_order else device
        self.index, self.valid = (x.to(place, non_blocking=True) for x in (index, valid))
        # A row that several tasks share is a support: nothing is applied to it, and its owner is not asked for.
        owner = [0] * rows
        for number, members in enumerate(tasks):
            for row in members:
                owner[row] = number
        alone = self.in_order and width == 1
        self.task = None if alone else torch.tensor(owner).to(device, non_blocking=True)
