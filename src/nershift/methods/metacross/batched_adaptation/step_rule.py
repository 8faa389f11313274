"""A few gradient steps from fresh moments: as an optimiser for one task, and as a formula for many at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from nershift.training.optim import BETAS, EPS, BertAdam, clip_factor

RuleKind = Literal["adam", "released", "sgd"]
_ADAM_EPS = 1e-8


@dataclass(frozen=True)
class StepRule:
    """How a task's gradients move the weights.

    ``adam`` is Adam with bias correction, ``released`` is :class:`BertAdam`, ``sgd`` the plain formula. ``clip``
    bounds the gradient norm of each tensor by itself; 0: off.
    """

    kind: RuleKind = "adam"
    rate: float = 1e-5
    clip: float = 0.0
    decay: float = 0.0  # released only; matrices only

    @property
    def low_rank(self) -> bool:
        """Is a linear layer's change a sum of outer products, at most one a position?"""
        return self.kind == "sgd"

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """A fresh one, for one task."""
        if self.kind == "released":
            return BertAdam(parameters, self.rate, self.decay, self.clip)
        if self.kind == "adam":
            return torch.optim.Adam(parameters, self.rate, foreach=True)
        return torch.optim.SGD(parameters, self.rate, foreach=True)

    def clip_tensors(self, grads: Iterable[Tensor]) -> None:
        """In place, for an optimiser that does not clip by itself."""
        if self.clip and self.kind != "released":
            for grad in grads:
                grad.mul_(clip_factor(grad.norm(), self.clip))

    def scale(self, square: Tensor) -> Tensor:
        """The clipping factor of gradients whose squared norms are given."""
        return clip_factor(square.clamp(min=0).sqrt(), self.clip)

    def change(self, grads: Sequence[Tensor], weight: Tensor | None = None) -> Tensor:
        """What steps with these gradients, already clipped, add to a weight.

        Args:
            grads: one a step, of any one shape.
            weight: what decays (broadcast against the gradients); None: nothing.
        """
        if self.kind == "sgd":
            return sum(grads[1:], grads[0]) * -self.rate
        if self.kind == "adam" and len(grads) == 1:  # the moments cancel out: a step of one rate
            return torch.div(grads[0], grads[0].abs().add_(_ADAM_EPS)).mul_(-self.rate)
        mean, square = grads[0] * (1 - BETAS[0]), grads[0].square().mul_(1 - BETAS[1])
        total = torch.zeros_like(mean)
        for step, grad in enumerate(grads, 1):
            if step > 1:
                mean.mul_(BETAS[0]).add_(grad, alpha=1 - BETAS[0])
                square.mul_(BETAS[1]).addcmul_(grad, grad, value=1 - BETAS[1])
            pull = total + weight if self.decay and weight is not None else None
            if self.kind == "adam":
                spread = square.sqrt().mul_((1 - BETAS[1] ** step) ** -0.5).add_(_ADAM_EPS)
                total.addcdiv_(mean, spread, value=-self.rate / (1 - BETAS[0] ** step))
            else:
                total.addcdiv_(mean, square.sqrt().add_(EPS), value=-self.rate)
            if pull is not None:
                total.add_(pull, alpha=-self.rate * self.decay)
        return total
