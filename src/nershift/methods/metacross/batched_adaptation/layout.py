"""Which rows of a batch serve which task: sentences may be cut into windows, and tasks may share sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor


class Layout:
    """Rows of a batch by task.

    A layer inside the encoder sees a row a window, the head a row a sentence. The number of rows tells the
    two apart, since there are as many windows as sentences only where each sentence is one window.

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

    def of_tasks(self, x: Tensor, zero: bool = True) -> Tensor:
        """[R, P, ...] → [T, P', ...]: what the rows of each task hold, one after another.

        Tasks have unequal numbers of rows; what fills up the shorter ones is zero, or anything if not ``zero``.
        """
        rows = self._rows[len(x)]
        if rows.in_order:
            return x.reshape(self.tasks, -1, *x.shape[2:])
        taken = x[rows.index]  # [T, W, P, ...]
        if zero and not rows.full:
            taken = taken * rows.valid.view(*rows.valid.shape, *[1] * (taken.ndim - 2))
        return taken.flatten(1, 2)

    def of_rows(self, x: Tensor, rows: int) -> Tensor:
        """[T, ...] → [R, ...]: what each row finds at its task."""
        found = self._rows[rows]
        if found.task is None:
            return x
        return x[found.task]

    def folded(self, x: Tensor) -> Tensor:
        """[R, ..., H] → [T, S, H] where the rows of each task lie together, else [R, S, H]."""
        rows = self._rows[len(x)]
        return x.reshape(self.tasks if rows.in_order else len(x), -1, x.shape[-1])

    def of_folded(self, x: Tensor, rows: int) -> Tensor:
        """[T, ...] → what each row of what :meth:`folded` made of ``rows`` rows finds at its task."""
        found = self._rows[rows]
        return x if found.in_order or found.task is None else x[found.task]


class _Rows:
    def __init__(self, tasks: Sequence[Sequence[int]], rows: int, device: torch.device | str) -> None:
        wide = max(len(task) for task in tasks)
        index = torch.tensor([[*task, *[0] * (wide - len(task))] for task in tasks])  # [T, W]
        valid = torch.tensor([[i < len(task) for i in range(wide)] for task in tasks])
        self.full = bool(valid.all())
        self.in_order = self.full and index.flatten().tolist() == list(range(rows))
        # Rows that lie as they are needed have no use for tables; copies to a GPU do not wait for it.
        place = "cpu" if self.in_order else device
        self.index, self.valid = (x.to(place, non_blocking=True) for x in (index, valid))
        # Where a row serves several tasks it is only learned from, and this table is not asked.
        owner = [0] * rows
        for number, members in enumerate(tasks):
            for row in members:
                owner[row] = number
        alone = self.in_order and wide == 1
        self.task = None if alone else torch.tensor(owner).to(device, non_blocking=True)
