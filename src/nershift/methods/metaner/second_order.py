"""Second-order meta-gradients by double backward: the oracle, and the way to go for small models."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nershift.backend.autograd import double_backward
from nershift.methods.metaner.iteration import Iteration, full_precision, gradients, total


class ExactIteration(Iteration):
    """Every weight of every inner step stays in one graph. The equations are in ``maml.py``."""

    def run(self) -> None:
        with (
            double_backward(),
            full_precision(cudnn=False),
        ):  # cuDNN's recurrent layers have no double backward
            self._run()

    def _run(self) -> None:
        theta, outer = list[Tensor](self.theta), [torch.zeros_like(p) for p in self.theta]
        for number, step in enumerate(self.steps):
            losses = self._step_losses(step, theta)
            if not (self.settings.apart and number == len(self.steps) - 1):
                losses = [total(losses)]
            stages = [theta]
            for loss in losses:
                slope = torch.autograd.grad(loss, theta, create_graph=True, materialize_grads=True)
                outer = [a + g.detach() for a, g in zip(outer, slope, strict=True)]
                before = stages[-1]
                stages.append([w - self.settings.rate * g for w, g in zip(before, slope, strict=True)])
            theta = stages[-1]
        if not self.settings.maml:
            self.add(self.theta, outer)  # eq. 20
        wrt = self._decoders() + self.gamma + (self.theta if self.settings.maml else [])
        self.add(wrt, gradients(self._validation_loss(stages[1:]), wrt))  # eqs. 21-22

    def _step_losses(self, step: Sequence[int], theta: list[Tensor]) -> list[Tensor]:
        sums: list[Tensor] = []
        for task in step:
            losses = self.training_losses(task, self._states(task, theta))
            if self.settings.teach_heads:
                own = self.tasks.head(task)
                self.add(own, gradients(losses[0], own, retain=True))
            sums = [a + b for a, b in zip(sums, losses, strict=True)] if sums else losses
        return sums

    def _validation_loss(self, stages: Sequence[list[Tensor]]) -> Tensor:
        """Eq. 19, at ``[θ(old), θ(new)]`` or at ``[θ(new)]`` alone."""
        j = self.tasks.training
        if len(stages) == 1:
            return total(self.validation_losses(self._states(j, stages[0]), True, True))
        old, new = (self._states(j, stage) for stage in stages)
        return total([*self.validation_losses(old, True, False), *self.validation_losses(new, False, True)])

    def _states(self, task: int, theta: list[Tensor]) -> Tensor:
        return self.tasks.states(task, dict(zip(self.names, theta, strict=True)))

    def _decoders(self) -> list[nn.Parameter]:
        found = {id(p): p for task in range(self.tasks.training + 1) for p in self.tasks.head(task)}
        return list(found.values())
