"""Gradients of MetaNER's Algorithm 1: inner steps on the encoder, and what flows back through them.

Notation of the paper: θ encoder, φ tag heads, γ discriminator, α inner rate, λ weight of the adversary.
One sign convention everywhere: the discriminator's loss is a plain cross-entropy L_dis, and θ descends on

    L_adv = L_tr - λ · L_dis                                                                      (eq. 14)

which is what a gradient reversal layer of factor λ does to it. Inner step s, on the tasks of that step:

    θ_s(old) = θ_{s-1}  - α ∇_θ L_tr(θ_{s-1}, φ)                                                  (eq. 17)
    θ_s(new) = θ_s(old) - α ∇_θ [-λ L_dis(θ_{s-1}, γ)]                                            (eq. 18)
    θ_s      = θ_s(new)

so that only the last step has to know the two gradients apart. Then, with j the validation task,

    L_val = L_tr_j(θ(old), φ) + L_dis_j(θ(new), γ)                                                (eq. 19)
    θ: Σ_i ∇_θ L_adv_i, each taken where the inner loop met task i (at θ_0 when steps are summed) (eq. 20)
    φ, γ: dL_val/dφ, dL_val/dγ                                                                (eqs. 21-22)

First order takes θ(old) and θ(new) as constants in eqs. 21-22. Second order adds the way through the inner
steps: with v = ∂L_val/∂θ_s walked back by v ← v - α (∂²L_adv/∂θ²) v, every step adds -α (∂²L_adv/∂φ∂θ) v to
φ, and likewise to γ. ``second`` leaves that to double backward; ``second-fd`` takes both products at once
from a central difference of two ordinary gradients, at θ + εv and θ - εv, and so runs on kernels without a
double backward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from nershift.methods.metaner.iteration import (
    InnerSettings,
    Iteration,
    Tasks,
    Weights,
    full_precision,
    gradients,
    total,
)
from nershift.methods.metaner.second_order import ExactIteration

STEP = 2e-4  # length of a difference step, as a share of the norm of θ

Vector = list[Tensor]  # shaped like θ


def meta_gradients(
    encoder: Mapping[str, nn.Parameter],
    discriminator: Sequence[nn.Parameter],
    settings: InnerSettings,
    tasks: Tasks,
    share: float = 1.0,
) -> dict[str, Tensor]:
    """Leave the gradients of one iteration in ``.grad``; weights are as before when it returns.

    Args:
        encoder: θ by name, those that learn.
        discriminator: γ.
        settings: which of the variants.
        tasks: what is learned from.
        share: multiplies all gradients (one part of several that make up a step).

    Returns:
        Mean losses, for the log.
    """
    kind = ExactIteration if settings.order == "second" else InPlaceIteration
    iteration = kind(Weights(encoder, discriminator), settings, tasks, share)
    iteration.run()
    return iteration.logged


class InPlaceIteration(Iteration):
    """First order and central differences: the module's own weights are moved, used and put back."""

    def run(self) -> None:
        start = [p.detach().clone() for p in self.theta]
        try:
            if self.settings.order == "second-fd":
                with full_precision(cudnn=True):
                    self._second()
            else:
                self._first()
        finally:
            with torch.no_grad():
                for p, value in zip(self.theta, start, strict=True):
                    p.copy_(value)

    def _first(self) -> None:
        _, slope, back = self._there(through=self.settings.maml)
        self.add(self.theta, _sum(back) if self.settings.maml else slope)

    def _second(self) -> None:
        moves, slope, back = self._there(through=True)
        v = self._and_back(moves, back)
        self.add(self.theta, v if self.settings.maml else slope)

    def _there(self, through: bool) -> tuple[list[list[Vector]], Vector, list[Vector]]:
        """The inner steps and eq. 19, whose direct gradients are left in φ and γ.

        Args:
            through: is ∂L_val/∂θ wanted?

        Returns:
            For each step the gradients it moved along, their sum (eq. 20), and ∂L_val/∂θ at the weights after
            each move of the last step.
        """
        moves = []
        for number, step in enumerate(self.steps):
            last = number == len(self.steps) - 1
            moves.append(self._slopes(step, apart=last and self.settings.apart))
            if not last:
                self._move(moves[-1][0], -self.settings.rate)
        back = []
        for i, slope in enumerate(moves[-1]):
            self._move(slope, -self.settings.rate)
            back.append(self._validate((i == 0, i == 1) if self.settings.apart else (True, True), through))
        return moves, _sum([slope for slopes in moves for slope in slopes]), back

    def _slopes(self, step: Sequence[int], apart: bool) -> list[Vector]:
        """``[∇L_tr, ∇(-λ L_dis)]`` summed over the step's tasks, or ``[∇L_adv]`` (eqs. 17-18)."""
        found: list[list[Vector]] = []
        for task in step:
            losses = self.training_losses(task, self.tasks.states(task))
            if not apart:
                losses = [total(losses)]
            own = self.tasks.head(task) if self.settings.teach_heads else []
            grads = gradients(losses[0], [*self.theta, *own], retain=apart)
            self.add(own, grads[len(self.theta) :])
            found.append([grads[: len(self.theta)], *(gradients(loss, self.theta) for loss in losses[1:])])
        return [_sum(parts) for parts in zip(*found, strict=True)]

    def _validate(self, parts: tuple[bool, bool], through: bool) -> Vector:
        """Eq. 19, or one of its terms, at the present weights; returns its gradient for θ."""
        with torch.set_grad_enabled(through):
            states = self.tasks.states(self.tasks.training)
        heads = self.tasks.head(self.tasks.training) * parts[0] + self.gamma * parts[1]
        theta = self.theta if through else []
        found = gradients(total(self.validation_losses(states, *parts)), [*theta, *heads])
        self.add(heads, found[len(theta) :])
        return found[: len(theta)]

    def _and_back(self, moves: Sequence[list[Vector]], back: list[Vector]) -> Vector:
        """From ∂L_val/∂θ after the last step to that at θ_0, adding the second-order part of φ and γ."""
        # θ(new) is reached by way of θ(old): what arrives there has passed through both moves.
        v = _sum(back)
        for number in reversed(range(len(self.steps))):
            for slope in moves[number]:
                self._move(slope, self.settings.rate)
            onwards = number > 0 or self.settings.maml
            if len(moves[number]) == 1:
                bends = [self._bend(self.steps[number], v, (True, True), onwards)]
            else:
                bends = [
                    self._bend(self.steps[number], v, (True, False), onwards),
                    self._bend(self.steps[number], back[1], (False, True), onwards),
                ]
            if onwards:
                v = _sum([v, *bends])
        return v

    def _bend(self, step: Sequence[int], v: Vector, parts: tuple[bool, bool], onwards: bool) -> Vector:
        """``-α (∂²L/∂θ²) v`` if ``onwards``; ``-α (∂²L/∂φ∂θ) v`` and the same with γ are added to φ and γ.

        Args:
            step: the tasks of the inner step.
            parts: is L made of L_tr, of -λ L_dis?
        """
        length = float(_norm(v))
        if not length:
            return [torch.zeros_like(x) for x in v] if onwards else []
        width = STEP * float(_norm(self.theta)) / length
        found: list[Vector] = []
        for sign in (1.0, -1.0):
            factor = -self.settings.rate * sign / (2 * width)
            self._move(v, sign * width)
            for task in step:
                with torch.set_grad_enabled(onwards):
                    states = self.tasks.states(task)
                losses, heads = list[Tensor](), list[nn.Parameter]()
                if parts[0]:
                    losses.append(self.tasks.tagging(task, states))
                    heads += self.tasks.head(task)
                if parts[1] and self.settings.adversary:
                    losses.append(-self.settings.weight * self.tasks.domain(task, states))
                    heads += self.gamma
                theta = self.theta if onwards else []
                grads = gradients(total(losses), [*theta, *heads])
                self.add(heads, grads[len(theta) :], factor)
                found.append([g.mul_(factor) for g in grads[: len(theta)]])
            self._move(v, -sign * width)
        return _sum(found)

    @torch.no_grad()
    def _move(self, direction: Vector, by: float) -> None:
        for p, d in zip(self.theta, direction, strict=True):
            p.add_(d, alpha=by)


def _sum(vectors: Sequence[Vector]) -> Vector:
    first, *others = vectors
    if not others:
        return first
    out = [a + b for a, b in zip(first, others[0], strict=True)]
    for vector in others[1:]:
        for a, b in zip(out, vector, strict=True):
            a.add_(b)
    return out


def _norm(vector: Sequence[Tensor]) -> Tensor:
    return torch.nn.utils.get_total_norm([x.detach() for x in vector])
