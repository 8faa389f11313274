"""The inner update U of eq. 7: a few gradient steps on the supports of one task.

:func:`inner_update` is the plain version: step, use the new weights, restore the old ones. ``batched_adaptation`` does
the same for many tasks at once and is tested against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from nershift.methods.metacross.token_classifier import sentence_losses
from nershift.model import Batch, TaggingModel
from nershift.training.optim import BETAS, EPS, BertAdam, clip_factor

RuleKind = Literal["adam", "released", "sgd"]
_ADAM_EPS = 1e-8


@contextmanager
def inner_update(
    model: TaggingModel, rule: StepRule, steps: int, support: Batch, weight: float = 0.0
) -> Iterator[None]:
    """Inside the block the model has the weights θ' of one task (eqs. 7-8); afterwards its own again.

    Args:
        weight: λ of eq. 13.
    """
    parameters = trained_parameters(model)
    before = [p.detach().clone() for p in parameters]
    optimizer = rule.optimizer(parameters)
    for _ in range(steps):
        loss = sentence_losses(model, support, weight).sum()
        grads = torch.autograd.grad(loss, parameters, allow_unused=True)
        rule.clip_tensors(g for g in grads if g is not None)
        for p, grad in zip(parameters, grads, strict=True):
            p.grad = grad
        optimizer.step()
        torch.clear_autocast_cache()  # it holds copies of the weights before the step
    for p in parameters:
        p.grad = None
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(list[Tensor](parameters), before)
        torch.clear_autocast_cache()


def trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


@dataclass(frozen=True)
class StepRule:
    """How the gradients of a task change the weights: as an optimiser for one task, as a formula for many.

    ``adam`` is Adam with bias correction, ``released`` is :class:`BertAdam`, ``sgd`` is eq. 8. Moments start at zero
    for each task. ``clip`` bounds the gradient norm of each tensor separately; 0: no clipping.
    """

    kind: RuleKind = "adam"
    rate: float = 1e-5
    clip: float = 0.0
    weight_decay: float = 0.0  # for `released`, of matrices

    @property
    def low_rank(self) -> bool:
        """Is the change of a linear layer a sum of outer products, at most one for each position?"""
        return self.kind == "sgd"

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """A new one, for one task."""
        if self.kind == "released":
            return BertAdam(parameters, self.rate, self.weight_decay, self.clip)
        if self.kind == "adam":
            return torch.optim.Adam(parameters, self.rate, foreach=True)
        return torch.optim.SGD(parameters, self.rate, foreach=True)

    def clip_tensors(self, grads: Iterable[Tensor]) -> None:
        """Clip in place, for an optimiser that does not clip by itself."""
        if self.clip and self.kind != "released":
            for grad in grads:
                grad.mul_(clip_factor(grad.norm(), self.clip))

    def clip_scale(self, squared_norm: Tensor) -> Tensor:
        """The factor that clips gradients of these squared norms."""
        return clip_factor(squared_norm.clamp(min=0).sqrt(), self.clip)

    def change(self, grads: Sequence[Tensor], weight: Tensor | None = None) -> Tensor:
        """What steps with these gradients, clipped before, add to a weight.

        Args:
            grads: one for each step, all of one shape.
            weight: what decays (broadcast against the gradients); None: nothing.
        """
        if self.kind == "sgd":
            return sum(grads[1:], grads[0]) * -self.rate
        if self.kind == "adam" and len(grads) == 1:  # the moments cancel out: g / |g|
            return torch.div(grads[0], grads[0].abs().add_(_ADAM_EPS)).mul_(-self.rate)
        mean, square = grads[0] * (1 - BETAS[0]), grads[0].square().mul_(1 - BETAS[1])
        total = torch.zeros_like(mean)
        for step, grad in enumerate(grads, 1):
            if step > 1:
                mean.mul_(BETAS[0]).add_(grad, alpha=1 - BETAS[0])
                square.mul_(BETAS[1]).addcmul_(grad, grad, value=1 - BETAS[1])
            decayed = total + weight if self.weight_decay and weight is not None else None
            if self.kind == "adam":
                spread = square.sqrt().mul_((1 - BETAS[1] ** step) ** -0.5).add_(_ADAM_EPS)
                total.addcdiv_(mean, spread, value=-self.rate / (1 - BETAS[0] ** step))
            else:
                total.addcdiv_(mean, square.sqrt().add_(EPS), value=-self.rate)
            if decayed is not None:
                total.add_(decayed, alpha=-self.rate * self.weight_decay)
        return total
