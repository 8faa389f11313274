"""Second-order gradients for φ and γ (eqs. 21-22), and for θ with ``update: maml``: exact, or by finite differences.

Second order adds the way through the inner steps. With v = ∂L_val/∂θ walked back by v ← v - α (∂²L_adv/∂θ²) v, every
inner step adds -α (∂²L_adv/∂φ∂θ) v to the gradient of φ, and likewise for γ. :class:`Exact` leaves this to double
backward. :class:`FiniteDifferences` takes both products from a central difference of two ordinary gradients, at θ + εv
and θ - εv, so it also runs on kernels without a double backward, such as cuDNN's recurrent layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from nershift.backend.device import double_backward
from nershift.methods.metaner.step import Iteration, Vector, add_up, grad

EPSILON = 2e-4  # length of a difference step, relative to the norm of θ


class Exact(Iteration):
    """Keeps all weights of all inner steps in one graph. The reference for tests; fast enough for small models."""

    def meta_gradients(self) -> None:
        with double_backward(), full_precision(cudnn=False):  # cuDNN's recurrent layers have no double backward
            outer, thetas = self._inner_steps()
            if not self.maml:
                self.add(self.theta, outer)  # eq. 20
            wrt = self._all_phi() + self.gamma + (self.theta if self.maml else [])
            self.add(wrt, grad(self._validation_loss(thetas), wrt))  # eqs. 21-22

    def _inner_steps(self) -> tuple[Vector, list[Vector]]:
        """Σ ∇θ L_adv, and ``[θ(old), θ(new)]`` or ``[θ(new)]`` as functions of θ_0, φ_0 and γ_0."""
        theta, outer = list[Tensor](self.theta), [torch.zeros_like(p) for p in self.theta]
        thetas = list[Vector]()
        for number, step in enumerate(self.steps):
            losses = self._step_losses(step, theta)
            if not (self.apart and number == len(self.steps) - 1):
                losses = [torch.stack(losses).sum()]
            thetas, before = [], theta
            for loss in losses:
                slope = torch.autograd.grad(loss, before, create_graph=True, materialize_grads=True)
                outer = [a + g.detach() for a, g in zip(outer, slope, strict=True)]
                theta = [w - self.options.inner_lr * g for w, g in zip(theta, slope, strict=True)]  # eqs. 17-18
                thetas.append(theta)
        return outer, thetas

    def _step_losses(self, step: Sequence[int], theta: Vector) -> list[Tensor]:
        sums: list[Tensor] = []
        for task in step:
            losses = self.training_losses(task, self._states(task, theta))
            if self.tasks.own_heads:
                phi = self.tasks.phi(task)
                self.add(phi, grad(losses[0], phi, retain=True))
            sums = [a + b for a, b in zip(sums, losses, strict=True)] if sums else losses
        return sums

    def _validation_loss(self, thetas: Sequence[Vector]) -> Tensor:
        """Eq. 19."""
        j = self.tasks.validation
        if len(thetas) == 1:
            return torch.stack(self.validation_losses(self._states(j, thetas[0]), True, True)).sum()
        old, new = (self._states(j, theta) for theta in thetas)
        return torch.stack([*self.validation_losses(old, True, False), *self.validation_losses(new, False, True)]).sum()

    def _states(self, task: int, theta: Vector) -> Tensor:
        return self.tasks.states(task, dict(zip(self.tasks.theta, theta, strict=True)))

    def _all_phi(self) -> list[nn.Parameter]:
        distinct = {id(p): p for task in range(self.tasks.validation + 1) for p in self.tasks.phi(task)}
        return list(distinct.values())


class FiniteDifferences(Iteration):
    """First order, then the second-order part by central differences, walking the inner steps backwards."""

    def meta_gradients(self) -> None:
        with full_precision(cudnn=True):
            path, at_validation = self.inner_loop(through=True)
            v = self._walk_back(path, at_validation)
            self.add(self.theta, v if self.maml else add_up([g for step in path for g in step]))

    def _walk_back(self, path: Sequence[list[Vector]], at_validation: list[Vector]) -> Vector:
        """From ∂L_val/∂θ after the last step to that at θ_0, adding the second-order parts of φ and γ."""
        v = add_up(at_validation)  # θ(new) is reached by way of θ(old): its part went through both moves
        for number in reversed(range(len(self.steps))):
            step = self.steps[number]
            for slope in path[number]:
                self.move(slope, self.options.inner_lr)
            wanted = number > 0 or self.maml  # is v at θ before this step needed?
            if len(path[number]) == 1:
                products = [self._products(step, v, True, True, wanted)]
            else:
                products = [
                    self._products(step, v, True, False, wanted),
                    self._products(step, at_validation[1], False, True, wanted),
                ]
            if wanted:
                v = add_up([v, *products])
        return v

    def _products(self, step: Sequence[int], v: Vector, tagging: bool, domain: bool, wanted: bool) -> Vector:
        """``-α (∂²L/∂θ²) v`` if wanted; adds ``-α (∂²L/∂φ∂θ) v`` and ``-α (∂²L/∂γ∂θ) v``.

        L is the sum of L_tr (``tagging``) and -λ L_dis (``domain``) over the tasks of the step.
        """
        length = float(_norm(v))
        if not length:
            return [torch.zeros_like(x) for x in v] if wanted else []
        width = EPSILON * float(_norm(self.theta)) / length
        by_task: list[Vector] = []
        for sign in (1.0, -1.0):
            factor = -self.options.inner_lr * sign / (2 * width)
            self.move(v, sign * width)
            for task in step:
                with torch.set_grad_enabled(wanted):
                    states = self.tasks.states(task)
                losses, heads = list[Tensor](), list[nn.Parameter]()
                if tagging:
                    losses.append(self.tasks.tagging_loss(task, states))
                    heads += self.tasks.phi(task)
                discrimination = self.tasks.domain_loss(task, states) if domain else None
                if discrimination is not None:
                    losses.append(-self.options.adversary_weight * discrimination)
                    heads += self.gamma
                theta = self.theta if wanted else []
                grads = grad(torch.stack(losses).sum(), [*theta, *heads])
                self.add(heads, grads[len(theta) :], factor)
                by_task.append([g.mul_(factor) for g in grads[: len(theta)]])
            self.move(v, -sign * width)
        return add_up(by_task)


@contextmanager
def full_precision(cudnn: bool) -> Iterator[None]:
    """No TF32: its ten bits are too few for a difference of two gradients. cuDNN only if asked for."""
    backend, before = torch.backends.cudnn, torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with backend.flags(
            enabled=backend.enabled and cudnn,
            benchmark=backend.benchmark,
            deterministic=backend.deterministic,
            allow_tf32=False,
        ):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def _norm(vector: Sequence[Tensor]) -> Tensor:
    return torch.nn.utils.get_total_norm([x.detach() for x in vector])
