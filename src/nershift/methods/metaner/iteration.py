"""What an iteration of MetaNER's Algorithm 1 works on, however its gradients are computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from nershift.methods.adversary import reverse

Order = Literal["first", "second", "second-fd"]


class Tasks(Protocol):
    """Meta-training tasks ``0 … training - 1`` and, numbered ``training``, the meta-validation task.

    Whenever the same task is evaluated, it must see the same dropout masks.
    """

    training: int

    def states(self, task: int, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """States of the task's sentences, with other encoder weights in place of the module's if given."""

    def tagging(self, task: int, states: Tensor) -> Tensor:
        """L_tr."""

    def domain(self, task: int, states: Tensor) -> Tensor:
        """L_dis, without any reversal."""

    def head(self, task: int) -> list[nn.Parameter]:
        """φ of the task."""


@dataclass(frozen=True)
class InnerSettings:
    """See the options of method ``metaner``."""

    rate: float  # α
    weight: float  # λ
    adversary: bool = True
    inner: Literal["chained", "summed"] = "chained"
    order: Order = "first"
    validation: Literal["both", "new"] = "both"
    update: Literal["metaner", "maml"] = "metaner"
    teach_heads: bool = False  # do meta-training tasks also train their heads by L_tr?

    @property
    def apart(self) -> bool:
        """Do the two losses of eq. 19 see different weights?"""
        return self.adversary and self.validation == "both"

    @property
    def maml(self) -> bool:
        return self.update == "maml"


@dataclass(frozen=True)
class Weights:
    """θ by name (those that learn) and γ."""

    encoder: Mapping[str, nn.Parameter]
    discriminator: Sequence[nn.Parameter]


class Iteration(ABC):
    """Leaves gradients in ``.grad``, multiplied by ``share``; ``logged`` holds the losses met."""

    def __init__(self, weights: Weights, settings: InnerSettings, tasks: Tasks, share: float) -> None:
        self.settings, self.tasks, self.share = settings, tasks, share
        self.names, self.theta = list(weights.encoder), list(weights.encoder.values())
        self.gamma = list(weights.discriminator) if settings.adversary else []
        numbers = list(range(tasks.training))
        self.steps = [[i] for i in numbers] if settings.inner == "chained" else [numbers]
        self.logged: dict[str, Tensor] = {}

    @abstractmethod
    def run(self) -> None: ...

    def log(self, name: str, loss: Tensor, count: int) -> None:
        part = loss.detach() / count
        self.logged[name] = self.logged[name] + part if name in self.logged else part

    @torch.no_grad()
    def add(self, parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor], by: float = 1.0) -> None:
        for p, g in zip(parameters, gradients, strict=True):
            if p.grad is None:
                p.grad = torch.zeros_like(p)  # strides as p has them, which kernels' gradients may not
            p.grad.add_(g, alpha=self.share * by)

    def training_losses(self, task: int, states: Tensor) -> list[Tensor]:
        """``[L_tr, -λ L_dis]``, which add up to L_adv (eq. 14)."""
        tagging = self.tasks.tagging(task, states)
        self.log("loss", tagging, self.tasks.training)
        if not self.settings.adversary:
            return [tagging]
        domain = self.tasks.domain(task, states)
        self.log("domain_loss", domain, self.tasks.training)
        return [tagging, -self.settings.weight * domain]

    def validation_losses(self, states: Tensor, tagging: bool, domain: bool) -> list[Tensor]:
        """The terms of eq. 19 that are asked for."""
        found, j = [], self.tasks.training
        if tagging:
            found.append(self.tasks.tagging(j, states))
            self.log("validation_loss", found[-1], 1)
        if domain and self.settings.adversary:
            if self.settings.maml:  # θ follows this loss, too, and so has to see the adversary reversed
                states = reverse(states, self.settings.weight)
            found.append(self.tasks.domain(j, states))
            self.log("validation_domain_loss", found[-1], 1)
        return found


def gradients(loss: Tensor, wrt: Sequence[nn.Parameter], retain: bool = False) -> list[Tensor]:
    """Zeros for what the loss does not depend on."""
    if not wrt:
        return []
    return list(torch.autograd.grad(loss, list(wrt), retain_graph=retain, materialize_grads=True))


def total(losses: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(losses)).sum()


@contextmanager
def full_precision(cudnn: bool) -> Iterator[None]:
    """No TF32, whose ten bits a difference of two gradients cannot afford; and cuDNN only if asked for."""
    found, before = torch.backends.cudnn, torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with found.flags(
            enabled=found.enabled and cudnn,
            benchmark=found.benchmark,
            deterministic=found.deterministic,
            allow_tf32=False,
        ):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
