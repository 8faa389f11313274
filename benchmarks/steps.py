"""Training steps as the loop takes them, one at a time, for benchmarks that time them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from nershift.model import Batch
from nershift.training.optim import make_optimizer
from nershift.training.seeding import seed_torch
from nershift.training.stage import TrainingStage

Losses = Callable[[Mapping[str, Batch]], Iterable[Tensor]]


class Steps:
    """Call :meth:`step` again and again.

    Args:
        losses: instead of the phase's own gradients, update after each of these losses of the same batches.
        cycle: start the batches over after so many steps; 0: never.
    """

    def __init__(self, stage: TrainingStage, losses: Losses | None = None, cycle: int = 0) -> None:
        self.stage, self.losses, self.cycle, self.number = stage, losses, cycle, 0
        self.optimizer = make_optimizer(stage.config, stage.model)

    def step(self) -> dict[str, Tensor]:
        self.stage.model.train()
        seed_torch(self.number)
        batches = self.stage.draw(self.number % self.cycle if self.cycle else self.number, 0, 1)
        self.number += 1
        if self.losses is None:
            logged = self.stage.gradients(batches, Tensor.backward)
            self._update()
            return logged
        for loss in self.losses(batches):
            loss.backward()
            self._update()
        return {}

    def _update(self) -> None:
        parameters = [p for p in self.stage.model.parameters() if p.grad is not None]
        if self.stage.config.clip:
            torch.nn.utils.clip_grad_norm_(parameters, self.stage.config.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
