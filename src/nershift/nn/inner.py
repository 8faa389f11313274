"""Gradients of MetaNER's Algorithm 1: inner steps on the encoder, and what flows back through them.

Notation of the paper: θ encoder, φ tag decoders, γ discriminator, α inner rate, λ weight of the adversary.
One sign convention everywhere: the discriminator's loss is a plain cross-entropy L_dis, and θ descends on

    L_adv = L_tr - λ · L_dis                                                                        (eq. 14)

which is what a gradient reversal layer of factor λ does to it. Inner step s, on the tasks of that step:

    θ_s(old) = θ_{s-1}  - α ∇_θ L_tr(θ_{s-1}, φ)                                                    (eq. 17)
    θ_s(new) = θ_s(old) - α ∇_θ [-λ L_dis(θ_{s-1}, γ)]                                              (eq. 18)
    θ_s      = θ_s(new)

so that only the last step has to know the two gradients apart. Then, with j the validation task,

    L_val = L_tr_j(θ(old), φ) + L_dis_j(θ(new), γ)                                                  (eq. 19)
    θ: Σ_i ∇_θ L_adv_i, each taken where the inner loop met task i (at θ_0 when steps are summed)   (eq. 20)
    φ, γ: dL_val/dφ, dL_val/dγ                                                                      (eqs. 21-22)

First order takes θ(old) and θ(new) as constants in eqs. 21-22. Second order adds the way through the inner steps:
with v = ∂L_val/∂θ_s walked back by v ← v - α (∂²L_adv/∂θ²) v, every step adds -α (∂²L_adv/∂φ∂θ) v to φ, the same
with γ to γ. ``second`` leaves that to double backward; ``second-fd`` takes both products at once from a central
difference of two ordinary gradients, at θ + εv and θ - εv, and so runs on kernels without a double backward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from nershift.nn.adversary import reverse
from nershift.nn.crf import double_backward

STEP = 3e-3  # length of a difference step, as a share of the norm of the weights it changes


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

    def decoder(self, task: int) -> list[nn.Parameter]:
        """φ of the task."""


@dataclass(frozen=True)
class InnerSettings:
    """See the options of method ``metaner``."""

    rate: float  # α
    weight: float  # λ
    adversary: bool = True
    inner: Literal["chained", "summed"] = "chained"
    order: Literal["first", "second", "second-fd"] = "first"
    validation: Literal["both", "new"] = "both"
    update: Literal["metaner", "maml"] = "metaner"
    teach_decoders: bool = False  # do meta-training tasks also train their decoders by L_tr?


class MetaGradient:
    """Leaves the gradients of one iteration of Algorithm 1 in ``.grad``; weights are as before when it returns.

    Args:
        encoder: θ by name, those that learn.
        discriminator: γ.
    """

    def __init__(
        self, encoder: Mapping[str, nn.Parameter], discriminator: Sequence[nn.Parameter], settings: InnerSettings
    ) -> None:
        self.names, self.theta = list(encoder), list(encoder.values())
        self.gamma = list(discriminator)
        self.settings = settings
        # With one set of weights for both losses of eq. 19 there is nothing to keep apart.
        self.apart = settings.adversary and settings.validation == "both"
        self.meta_theta = settings.update == "maml"
        # maml: θ, too, follows the validation loss, in which the adversary then has to be reversed.
        self.validation_reversal = settings.weight if self.meta_theta else -1.0

    def __call__(self, tasks: Tasks, share: float = 1.0) -> dict[str, Tensor]:
        """``share`` multiplies all gradients (one part of several that make up a step). Returns mean losses."""
        run = _Exact if self.settings.order == "second" else _InPlace
        return run(self, tasks, share).run()


class _Iteration:
    """What both ways of computing share: which tasks make up a step, the losses, the sums."""

    def __init__(self, meta: MetaGradient, tasks: Tasks, share: float) -> None:
        self.meta, self.tasks, self.share, self.settings = meta, tasks, share, meta.settings
        numbers = list(range(tasks.training))
        self.steps = [[i] for i in numbers] if self.settings.inner == "chained" else [numbers]
        self.logged: dict[str, Tensor] = {}

    def run(self) -> dict[str, Tensor]:
        raise NotImplementedError

    def log(self, name: str, loss: Tensor, count: int) -> None:
        part = loss.detach() / count
        self.logged[name] = self.logged[name] + part if name in self.logged else part

    def add(self, parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor], factor: float = 1.0) -> None:
        for p, g in zip(parameters, gradients, strict=True):
            scaled = g.detach() * (self.share * factor)
            p.grad = scaled if p.grad is None else p.grad.add_(scaled)

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
            found.append(self.tasks.domain(j, reverse(states, self.meta.validation_reversal)))
            self.log("validation_domain_loss", found[-1], 1)
        return found

    def validation_heads(self, tagging: bool, domain: bool) -> list[nn.Parameter]:
        heads = self.tasks.decoder(self.tasks.training) if tagging else []
        return heads + (self.meta.gamma if domain and self.settings.adversary else [])


class _InPlace(_Iteration):
    """First order and central differences: the module's own weights are moved, used and put back."""

    def run(self) -> dict[str, Tensor]:
        theta = self.meta.theta
        start = [p.detach().clone() for p in theta]
        try:
            with _kernels(exact=False) if self.settings.order == "second-fd" else nullcontext():
                self._run()
        finally:
            with torch.no_grad():
                for p, value in zip(theta, start, strict=True):
                    p.copy_(value)
        return self.logged

    def _run(self) -> None:
        second = self.settings.order == "second-fd"
        through = second or self.meta.meta_theta  # is ∂L_val/∂θ wanted?
        moved: list[list[list[Tensor]]] = []  # a step: the gradients it moved θ along
        outer: list[Tensor] | None = None  # eq. 20
        for number, step in enumerate(self.steps):
            last = number == len(self.steps) - 1
            slopes = self._slopes(step, apart=last and self.meta.apart)
            if not last:
                self._move(slopes[0], -self.settings.rate)
            else:
                back = self._validate(slopes, through)
            if not self.meta.meta_theta:
                for slope in slopes:
                    outer = _plus(outer, slope, keep=second)
            if second:
                moved.append(slopes)
        if second:
            back = [self._walk_back(moved, back)]
        if self.meta.meta_theta:
            for v in back:
                outer = _plus(outer, v, keep=False)
        assert outer is not None
        self.add(self.meta.theta, outer)

    def _slopes(self, step: Sequence[int], apart: bool) -> list[list[Tensor]]:
        """Eqs. 17-18: ``[∇L_tr, ∇(-λ L_dis)]`` summed over the step's tasks, or ``[∇L_adv]``; decoders' own share."""
        theta, total = self.meta.theta, list[list[Tensor] | None]()
        for task in step:
            losses = self.training_losses(task, self.tasks.states(task))
            if not apart:
                losses = [_sum(losses)]
            for i, loss in enumerate(losses):
                own = self.tasks.decoder(task) if self.settings.teach_decoders and i == 0 else []
                found = _gradients(loss, [*theta, *own], retain=i + 1 < len(losses))
                self.add(own, found[len(theta) :])
                total = total if i < len(total) else [*total, None]
                total[i] = _plus(total[i], found[: len(theta)], keep=False)
        return [slope for slope in total if slope is not None]

    def _validate(self, slopes: Sequence[list[Tensor]], through: bool) -> list[list[Tensor]]:
        """The last step with eq. 19 after each half of it; returns ``[∂/∂θ(old), ∂/∂θ(new)]`` if wanted."""
        found = []
        for i, slope in enumerate(slopes):
            self._move(slope, -self.settings.rate)
            parts = (i == 0, i == 1) if self.meta.apart else (True, True)
            with torch.set_grad_enabled(through):
                states = self.tasks.states(self.tasks.training)
            heads = self.validation_heads(*parts)
            theta = self.meta.theta if through else []
            grads = _gradients(_sum(self.validation_losses(states, *parts)), [*theta, *heads])
            self.add(heads, grads[len(theta) :])
            found.append(grads[: len(theta)])
        return found

    def _walk_back(self, moved: Sequence[Sequence[list[Tensor]]], back: list[list[Tensor]]) -> list[Tensor]:
        """From ∂L_val/∂θ at the end of the steps to that at θ_0, leaving the second-order part of φ and γ."""
        # θ(new) contains θ(old): what arrives at the new weights passes through both halves of the last step.
        v = back[0] if len(back) == 1 else [a + b for a, b in zip(*back, strict=True)]
        for number in reversed(range(len(self.steps))):
            for slope in moved[number]:
                self._move(slope, self.settings.rate)
            onwards = number > 0 or self.meta.meta_theta
            if len(moved[number]) == 1:
                halves = [(v, (True, True))]
            else:
                halves = [(v, (True, False)), (back[1], (False, True))]
            bends = [self._bend(self.steps[number], w, parts, onwards) for w, parts in halves]
            if onwards:
                for bend in bends:
                    v = [a + b for a, b in zip(v, bend, strict=True)]
        return v

    def _bend(self, step: Sequence[int], v: list[Tensor], parts: tuple[bool, bool], onwards: bool) -> list[Tensor]:
        """``-α ∂²L/∂θ² v`` (if ``onwards``), having added ``-α ∂²L/∂φ∂θ v`` and ``-α ∂²L/∂γ∂θ v`` to φ and γ."""
        size = float(_norm(v))
        if not size:
            return [torch.zeros_like(x) for x in v]
        width = STEP * float(_norm([p for p, x in zip(self.meta.theta, v, strict=True) if bool(x.any())])) / size
        out: list[Tensor] | None = None
        for sign in (1.0, -1.0):
            self._move(v, sign * width)
            for task in step:
                with torch.set_grad_enabled(onwards):
                    states = self.tasks.states(task)
                losses, heads = list[Tensor](), list[nn.Parameter]()
                if parts[0]:
                    losses.append(self.tasks.tagging(task, states))
                    heads += self.tasks.decoder(task)
                if parts[1] and self.settings.adversary:
                    losses.append(-self.settings.weight * self.tasks.domain(task, states))
                    heads += self.meta.gamma
                theta = self.meta.theta if onwards else []
                found = _gradients(_sum(losses), [*theta, *heads])
                factor = -self.settings.rate * sign / (2 * width)
                self.add(heads, found[len(theta) :], factor)
                out = _plus(out, [g * factor for g in found[: len(theta)]], keep=False)
            self._move(v, -sign * width)
        assert out is not None
        return out

    @torch.no_grad()
    def _move(self, direction: Sequence[Tensor], by: float) -> None:
        for p, d in zip(self.meta.theta, direction, strict=True):
            p.add_(d, alpha=by)


class _Exact(_Iteration):
    """Second order by double backward: every weight of every step stays in one graph."""

    def run(self) -> dict[str, Tensor]:
        with double_backward(), _kernels(exact=True):
            self._run()
        return self.logged

    def _run(self) -> None:
        theta, outer = list[Tensor](self.meta.theta), list[Tensor]()
        for number, step in enumerate(self.steps):
            apart = self.meta.apart and number == len(self.steps) - 1
            losses = self._step_losses(step, theta)
            halves = losses if apart else [_sum(losses)]
            slopes = [torch.autograd.grad(h, theta, create_graph=True, materialize_grads=True) for h in halves]
            for slope in slopes:
                outer = [a + g.detach() for a, g in zip(outer, slope, strict=True)] if outer else [*slope]
            stages = [theta]
            for slope in slopes:
                stages.append([w - self.settings.rate * g for w, g in zip(stages[-1], slope, strict=True)])
            theta = stages[-1]
        if not self.meta.meta_theta:
            self.add(self.meta.theta, outer)
        j = self.tasks.training
        old, new = stages[1], stages[-1]
        if self.meta.apart:
            losses = self.validation_losses(self.tasks.states(j, self._named(old)), True, False)
            losses += self.validation_losses(self.tasks.states(j, self._named(new)), False, True)
        else:
            losses = self.validation_losses(self.tasks.states(j, self._named(new)), True, True)
        wrt = self._distinct_decoders() + (self.meta.gamma if self.settings.adversary else [])
        wrt += self.meta.theta if self.meta.meta_theta else []
        self.add(wrt, _gradients(_sum(losses), wrt))

    def _step_losses(self, step: Sequence[int], theta: list[Tensor]) -> list[Tensor]:
        total: list[Tensor] = []
        for task in step:
            losses = self.training_losses(task, self.tasks.states(task, self._named(theta)))
            if self.settings.teach_decoders:
                own = self.tasks.decoder(task)
                self.add(own, _gradients(losses[0], own, retain=True))
            total = [a + b for a, b in zip(total, losses, strict=True)] if total else losses
        return total

    def _named(self, theta: list[Tensor]) -> dict[str, Tensor]:
        return dict(zip(self.meta.names, theta, strict=True))

    def _distinct_decoders(self) -> list[nn.Parameter]:
        found = {id(p): p for task in range(self.tasks.training + 1) for p in self.tasks.decoder(task)}
        return list(found.values())


def _gradients(loss: Tensor, wrt: Sequence[nn.Parameter], retain: bool = False) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(wrt), retain_graph=retain, materialize_grads=True)) if wrt else []


def _sum(losses: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(losses)).sum()


def _plus(total: list[Tensor] | None, more: list[Tensor], keep: bool) -> list[Tensor]:
    """``total + more``; into the tensors of ``total`` unless they are still to be kept."""
    if total is None:
        return more
    if keep:
        return [a + b for a, b in zip(total, more, strict=True)]
    return [a.add_(b) for a, b in zip(total, more, strict=True)]


def _norm(tensors: Sequence[Tensor]) -> Tensor:
    return torch.nn.utils.get_total_norm([t.detach() for t in tensors])


@contextmanager
def _kernels(exact: bool) -> Iterator[None]:
    """No TF32, for a difference of two gradients cannot afford its ten bits; no cuDNN where it has to be exact."""
    cudnn, before = torch.backends.cudnn, torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with cudnn.flags(cudnn.enabled and not exact, cudnn.benchmark, deterministic=cudnn.deterministic, allow_tf32=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
