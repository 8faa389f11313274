"""Algorithm 1 of MetaNER: one iteration, read top to bottom. Gradients are of first order here, as in the paper.

θ are the encoder's weights, φ those of the tag heads, γ those of the domain discriminator. L_tr is the tagging loss
(eq. 12) and L_dis the discriminator's cross-entropy (eq. 13). θ descends on

    L_adv    = L_tr - λ L_dis                                         (eq. 14)

and the sign is written out wherever the paper speaks of a gradient reversal layer. With T_i the meta-training tasks and
T_j the meta-validation task, α the inner learning rate:

    θ_i(old) = θ_{i-1}  - α ∇θ L_tr_i(θ_{i-1}, φ)                     (eq. 17)
    θ_i(new) = θ_i(old) - α ∇θ [-λ L_dis_i(θ_{i-1}, γ)]               (eq. 18; the next step starts from here)
    L_val    = L_tr_j(θ(old), φ) + L_dis_j(θ(new), γ)                 (eq. 19)

    gradient of θ: Σ_i ∇θ L_adv_i                                     (eq. 20)
    gradients of φ and γ: ∇φ L_val and ∇γ L_val                       (eqs. 21-22)

First order treats θ(old) and θ(new) as constants in eqs. 21-22. ``second_order.py`` does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from nershift.config import setting
from nershift.encoders.base import Encoder
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.encoders.words import WordTable
from nershift.methods.adversary import Discriminator, reverse
from nershift.model import Batch, TaggingModel
from nershift.training.seeding import generator, seed_torch
from nershift.training.stage import Backward, TrainingStage, joint_epoch

Vector = list[Tensor]  # one tensor for each weight of θ


@dataclass(frozen=True)
class MetaNEROptions:
    """The defaults are the full model of the paper; the switches are those of its ablation (Figure 8)."""

    inner_lr: float = setting(1e-4, "Learning rate α of the inner steps (eqs. 17-18).", was="inner_rate", low=0)
    adversary_weight: float = setting(0.8, "Weight λ of the discriminator's loss (eq. 14).", was="weight", low=0)
    hidden: int = setting(100, "Hidden units of the discriminator (eq. 11).", low=1)
    order: Literal["first", "second", "second-fd"] = setting(
        "first",
        "Order of the meta-gradient. first: as in the paper. second: exact, by double backward (slow). second-fd: "
        "second order by finite differences of gradients.",
    )
    inner_steps: Literal["chained", "summed"] = setting(
        "chained",
        "chained: one inner step per meta-training domain, each starting where the last ended. summed: one for all.",
        was="inner",
    )
    adversary: bool = setting(True, "Train the encoder against a domain discriminator.")
    discriminator_domains: Literal["validation", "all"] = setting(
        "validation",
        "What the discriminator learns from. validation: the validation domain alone, one per iteration (eq. 22). all: "
        "every domain of the iteration, so that it cannot win by always naming one.",
    )
    meta: bool = setting(True, "Meta-learning. false: plain training on all sources, with the adversary.")
    validation_theta: Literal["both", "new"] = setting(
        "both", "both: tag at θ(old) and discriminate at θ(new) (eq. 19). new: do both at θ(new)."
    )
    update: Literal["metaner", "maml"] = setting(
        "metaner", "What θ learns from. metaner: the meta-training losses (eq. 20). maml: the validation loss."
    )
    new_head: bool = setting(
        False, "Start the target with a new head (Algorithm 2) even if the sources' head fits.", was="new_decoder"
    )


class MetaStage(TrainingStage):
    """Algorithm 1. A step draws one batch from every source; the last domain drawn validates, the others train.

    With several processes, each takes inner steps on its own share of the batches; outer gradients are averaged.
    """

    def __init__(
        self,
        *args: Any,
        options: MetaNEROptions,
        discriminator: Discriminator | None,
        iteration: type[Iteration],
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.options, self.discriminator, self.iteration = options, discriminator, iteration
        self.domains = {name: index for index, name in enumerate(self.samplers)}
        self.steps_per_epoch = joint_epoch(self.samplers)

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        """Line 3: split the domains at random."""
        names = list(self.samplers)
        generator(self.seed, self.name, "split", step).shuffle(names)
        return {name: self.samplers[name].batch(step, rank, world) for name in names}

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        """Lines 5-22 up to the gradients. The optimiser then steps along them; β is its learning rate."""
        with only_used_rows(self.model.encoder, list(batches.values())) as small:  # speed only
            tasks = Tasks(self.model, dict(zip(batches, small, strict=True)), self.domains, self.discriminator)
            return self.iteration(tasks, self.options, share=1 / self.config.accumulate).run()


class Iteration:
    """One pass through lines 7-22, which leaves its gradients in ``.grad``.

    Args:
        share: multiplies all gradients, for steps that accumulate several iterations.
    """

    def __init__(self, tasks: Tasks, options: MetaNEROptions, share: float = 1.0) -> None:
        self.tasks, self.options, self.share = tasks, options, share
        self.theta, self.gamma = list(tasks.theta.values()), tasks.gamma
        numbers = list(range(tasks.validation))
        self.steps = [[i] for i in numbers] if options.inner_steps == "chained" else [numbers]
        self.apart = bool(self.gamma) and options.validation_theta == "both"  # does eq. 19 use two different θ?
        self.maml = options.update == "maml"
        self.logged: dict[str, Tensor] = {}

    def run(self) -> dict[str, Tensor]:
        """Leave gradients in ``.grad`` and all weights as they were; returns mean losses for the log."""
        start = [p.detach().clone() for p in self.theta]  # θ_0; the inner steps move the weights in place
        try:
            self.meta_gradients()
        finally:
            with torch.no_grad():
                for p, value in zip(self.theta, start, strict=True):
                    p.copy_(value)
        return self.logged

    def meta_gradients(self) -> None:
        path, at_validation = self.inner_loop(through=self.maml)
        # Eq. 20. Departure: each gradient is the one the inner loop took, at θ_{i-1}, which saves a pass at θ_0.
        self.add(self.theta, add_up(at_validation if self.maml else [g for step in path for g in step]))

    def inner_loop(self, through: bool) -> tuple[list[list[Vector]], list[Vector]]:
        """Meta-training and meta-validation (lines 7-17); adds ∇φ L_val and ∇γ L_val (eqs. 21-22).

        Args:
            through: is ∂L_val/∂θ wanted?

        Returns:
            The gradients that each inner step moved along, and ∂L_val/∂θ at each θ of eq. 19.
        """
        path, alpha = list[list[Vector]](), self.options.inner_lr
        *steps, last = self.steps
        for step in steps:
            (both,) = self.training_gradients(step)
            self.move(both, -alpha)  # eqs. 17 and 18 in one move: only the last step needs θ(old)
            path.append([both])
        if self.apart:
            tagging, domain = self.training_gradients(last, apart=True)
            self.move(tagging, -alpha)  # eq. 17: θ(old)
            at_old = self.validate(through, tagging=True)
            self.move(domain, -alpha)  # eq. 18: θ(new)
            at_new = self.validate(through, domain=True)
            return [*path, [tagging, domain]], [at_old, at_new]
        (both,) = self.training_gradients(last)
        self.move(both, -alpha)
        return [*path, [both]], [self.validate(through, tagging=True, domain=True)]

    def training_gradients(self, step: Sequence[int], apart: bool = False) -> list[Vector]:
        """``[∇θ L_adv]``, or apart ``[∇θ L_tr, ∇θ (-λ L_dis)]``, summed over the tasks of one inner step."""
        by_task: list[list[Vector]] = []
        for task in step:
            losses = self.training_losses(task, self.tasks.states(task))
            if not apart:
                losses = [torch.stack(losses).sum()]
            # Departure: a head of one domain alone learns here too; by eq. 21 it would learn only when it validates.
            phi = self.tasks.phi(task) if self.tasks.own_heads else []
            first = grad(losses[0], [*self.theta, *phi], retain=apart)
            self.add(phi, first[len(self.theta) :])
            by_task.append([first[: len(self.theta)], *(grad(loss, self.theta) for loss in losses[1:])])
        return [add_up(parts) for parts in zip(*by_task, strict=True)]

    def training_losses(self, task: int, states: Tensor) -> list[Tensor]:
        """Lines 10-11: ``[L_tr, -λ L_dis]``, the terms of L_adv (eq. 14)."""
        tagging, domain = self.tasks.tagging_loss(task, states), self.tasks.domain_loss(task, states)
        self.log("loss", tagging, self.tasks.validation)
        if domain is None:
            return [tagging]
        self.log("domain_loss", domain, self.tasks.validation)
        if self.options.discriminator_domains == "all":
            self.teach_discriminator(task, states.detach())
        return [tagging, -self.options.adversary_weight * domain]

    def teach_discriminator(self, task: int, states: Tensor) -> None:
        """Beyond eq. 22: adds ∇γ L_dis of a meta-training task. θ is not touched, and second order adds no term."""
        loss = self.tasks.domain_loss(task, states)
        if loss is not None:
            self.add(self.gamma, grad(loss, self.gamma))

    def validate(self, through: bool, tagging: bool = False, domain: bool = False) -> Vector:
        """Eq. 19, or one of its terms, at the present θ: adds ∇φ and ∇γ, and returns ∇θ if ``through``."""
        j = self.tasks.validation
        with torch.set_grad_enabled(through):  # first order: no backward pass through the encoder
            states = self.tasks.states(j)
        heads = self.tasks.phi(j) * tagging + self.gamma * domain
        theta = self.theta if through else []
        loss = torch.stack(self.validation_losses(states, tagging, domain)).sum()
        values = grad(loss, [*theta, *heads])
        self.add(heads, values[len(theta) :])
        return values[: len(theta)]

    def validation_losses(self, states: Tensor, tagging: bool, domain: bool) -> list[Tensor]:
        """Lines 16-17: the terms of eq. 19 that are asked for."""
        losses, j = list[Tensor](), self.tasks.validation
        if tagging:
            losses.append(self.tasks.tagging_loss(j, states))
            self.log("validation_loss", losses[-1], 1)
        if domain:
            if self.maml:  # θ descends on this loss too, so it needs the reversal
                states = reverse(states, self.options.adversary_weight)
            discrimination = self.tasks.domain_loss(j, states)
            if discrimination is not None:
                losses.append(discrimination)
                self.log("validation_domain_loss", discrimination, 1)
        return losses

    @torch.no_grad()
    def move(self, direction: Vector, by: float) -> None:
        for p, d in zip(self.theta, direction, strict=True):
            p.add_(d, alpha=by)

    def add(self, parameters: Sequence[nn.Parameter], values: Sequence[Tensor], by: float = 1.0) -> None:
        add_gradients(parameters, values, self.share * by)

    def log(self, name: str, loss: Tensor, count: int) -> None:
        part = loss.detach() / count
        self.logged[name] = self.logged[name] + part if name in self.logged else part


class Tasks:
    """The batches of one iteration: tasks ``0 … validation - 1`` are for meta-training, ``validation`` is the last."""

    def __init__(
        self,
        model: TaggingModel,
        batches: Mapping[str, Batch],
        domains: Mapping[str, int],
        discriminator: Discriminator | None,
    ) -> None:
        self.model, self.discriminator = model, discriminator
        self.batches, self.domains = list(batches.values()), [domains[name] for name in batches]
        self.validation = len(self.batches) - 1
        self.theta = {n: p for n, p in model.encoder.named_parameters() if p.requires_grad}
        self.gamma = list(discriminator.parameters()) if discriminator is not None else []
        self.own_heads = len(model.heads) > 1  # heterogeneous: each domain has a φ of its own
        self._seed = int(torch.randint(2**62, ()).item())

    def phi(self, task: int) -> list[nn.Parameter]:
        return list(self.model.head(self.batches[task].key).parameters())

    def states(self, task: int, theta: Mapping[str, Tensor] | None = None) -> Tensor:
        """States ``[B, L, H]`` by the encoder's own weights or by ``theta``, with the same dropout masks every time."""
        seed_torch(self._seed, task)
        batch = self.batches[task]
        if theta is None:
            return self.model.states(batch)
        states: Tensor = functional_call(self.model.encoder, dict(theta), (), batch.inputs)
        return states

    def tagging_loss(self, task: int, states: Tensor) -> Tensor:
        """L_tr (eq. 12)."""
        return self.model.loss(self.batches[task], states)

    def domain_loss(self, task: int, states: Tensor) -> Tensor | None:
        """L_dis (eq. 13), not reversed; None without an adversary."""
        if self.discriminator is None:
            return None
        return self.discriminator.loss(states, self.batches[task].mask, self.domains[task])


def grad(loss: Tensor, wrt: Sequence[nn.Parameter], retain: bool = False) -> Vector:
    """Zeros for what the loss does not depend on."""
    if not wrt:
        return []
    return list(torch.autograd.grad(loss, list(wrt), retain_graph=retain, materialize_grads=True))


@torch.no_grad()
def add_gradients(parameters: Iterable[nn.Parameter], values: Sequence[Tensor], by: float) -> None:
    """Add ``by`` times ``values`` to what stands in ``.grad``."""
    for p, value in zip(parameters, values, strict=True):
        if p.grad is None:
            p.grad = torch.zeros_like(p)  # has the strides of p, which gradients of some kernels lack
        p.grad.add_(value, alpha=by)


def add_up(vectors: Sequence[Vector]) -> Vector:
    return [reduce(torch.add, parts) for parts in zip(*vectors, strict=True)]


@contextmanager
def only_used_rows(encoder: Encoder, batches: Sequence[Batch]) -> Iterator[list[Batch]]:
    """Shrink the word table to the rows that ``batches`` read; yields them with their words renumbered.

    Without this the inner steps spend most of their time copying and moving rows that no batch reads; no gradient
    changes. On exit the full table is back and has the gradients of the small one. Encoders without a trained word
    table stay as they are.
    """
    words = encoder.words if isinstance(encoder, RecurrentEncoder) else None
    if not isinstance(words, WordTable) or not words.weight.requires_grad:
        yield list(batches)
        return
    full, trained = words.weight, words.trained
    special = torch.arange(2, device=full.device)  # the padding and the unknown word keep their places
    used = torch.cat([special, *(batch.inputs["rows"].flatten() for batch in batches)]).unique()  # sorted
    used = used[used < trained]
    small = []
    for batch in batches:
        rows = batch.inputs["rows"]
        rows = torch.where(rows < trained, torch.searchsorted(used, rows), rows - trained + len(used))
        small.append(replace(batch, inputs=batch.inputs | {"rows": rows}))
    words.weight, words.trained = nn.Parameter(full.detach()[used]), len(used)
    try:
        yield small
    finally:
        gradient = words.weight.grad
        words.weight, words.trained = full, trained
        if gradient is not None:
            if full.grad is None:
                full.grad = torch.zeros_like(full)
            full.grad.index_add_(0, used, gradient)
