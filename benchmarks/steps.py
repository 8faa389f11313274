"""Training steps as the loop takes them, one at a time, for benchmarks that time them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from nershift.nn.model import Batch
from nershift.train.optim import make_optimizer
from nershift.train.phase import Phase
from nershift.train.seeding import seed_torch

Losses = Callable[[Mapping[str, Batch]], Iterable[Tensor]]


class Steps:
    """Call :meth:`step` again and again.

    Args:
        losses: instead of the phase's own gradients, update after each of these losses of the same batches.
        cycle: start the batches over after so many steps; 0: never.
    """

    def __init__(self, phase: Phase, losses: Losses | None = None, cycle: int = 0) -> None:
        self.phase, self.losses, self.cycle, self.number = phase, losses, cycle, 0
        self.optimizer = make_optimizer(phase.config, phase.model)

    def step(self) -> dict[str, Tensor]:
        self.phase.model.train()
        seed_torch(self.number)
        batches = self.phase.draw(self.number % self.cycle if self.cycle else self.number, 0, 1)
        self.number += 1
        if self.losses is None:
            logged = self.phase.gradients(batches, Tensor.backward)
            self._update()
            return logged
        for loss in self.losses(batches):
            loss.backward()
            self._update()
        return {}

    def _update(self) -> None:
        parameters = [p for p in self.phase.model.parameters() if p.grad is not None]
        if self.phase.config.clip:
            torch.nn.utils.clip_grad_norm_(parameters, self.phase.config.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
