"""Domain-adversarial training: gradient reversal, a domain discriminator, and the training stage with both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from nershift.model import Batch, TaggingModel
from nershift.training.seeding import seed_torch
from nershift.training.stage import Backward, TrainingStage, joint_epoch


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return -ctx.factor * grad, None


def reverse(x: Tensor, factor: float = 1.0) -> Tensor:
    """Gradient reversal layer: returns ``x``; the backward pass multiplies its gradient by ``-factor``.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> reverse(x, 0.5).sum().backward()
        >>> x.grad
        tensor([-0.5000, -0.5000])
    """
    reversed_: Tensor = _Reverse.apply(x, factor)
    return reversed_


class AttentionPool(nn.Module):
    """One vector per sentence: its states averaged with weights ``softmax(tanh(h · P + p))`` (MetaNER eqs. 9-10)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.empty(size).uniform_(-1, 1) * (3 / size) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(()))

    def weights(self, states: Tensor, mask: Tensor) -> Tensor:
        """``[B, L]``: sums to one over the tokens of each sentence, exactly zero on padding."""
        scores = torch.tanh(states @ self.vector + self.bias)  # [B, L]
        return torch.softmax(scores.masked_fill(~mask, float("-inf")), 1)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        return (self.weights(states, mask)[:, None] @ states)[:, 0]  # [B, 1, L] @ [B, L, H] -> [B, H]


class Discriminator(nn.Module):
    """From states ``[B, L, size]`` to the scores of ``domains`` classes, ``[B, domains]`` (γ; MetaNER eqs. 9-11).

    It always learns to tell domains apart. To train an encoder against it, pass it reversed states (:func:`reverse`).
    The hidden layer is smooth because second-order gradients pass through it.
    """

    def __init__(self, size: int, domains: int, hidden: int = 100) -> None:
        super().__init__()
        self.pool = AttentionPool(size)
        self.mlp = nn.Sequential(nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, domains))

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        scores: Tensor = self.mlp(self.pool(states, mask))
        return scores

    def loss(self, states: Tensor, mask: Tensor, domain: int) -> Tensor:
        """Mean cross-entropy of sentences that all come from ``domain`` (MetaNER eq. 13)."""
        scores = self(states, mask)
        return functional.cross_entropy(scores, scores.new_full((len(scores),), domain, dtype=torch.long))


def add_discriminator(model: TaggingModel, domains: int, hidden: int, seed: int) -> Discriminator:
    """Give the model a discriminator of ``domains`` domains, trained with it but not saved with the tagger."""
    seed_torch(seed, "discriminator")
    discriminator = Discriminator(model.encoder.size, domains, hidden)
    model.extras["discriminator"] = discriminator
    return discriminator


class AdversarialStage(TrainingStage):
    """One batch of every domain per step: the encoder descends on ``L_tr - λ L_dis``, the discriminator on ``L_dis``.

    Samplers are the domains, in their order. Batches without labels train the adversary alone.

    Args:
        discriminator: None trains without an adversary.
        weight: λ.
    """

    cuda_graph_safe = True

    def __init__(self, *args: Any, discriminator: Discriminator | None, weight: float, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.discriminator, self.weight = discriminator, weight
        self.domains = {name: number for number, name in enumerate(self.samplers)}
        self.steps_per_epoch = joint_epoch(self.samplers)

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        tagging, domain = list[Tensor](), list[Tensor]()
        for name, batch in batches.items():
            states = self.model.states(batch)
            if batch.targets is not None:
                tagging.append(self.model.loss(batch, states))
            if self.discriminator is not None:
                domain.append(self.discriminator.loss(reverse(states, self.weight), batch.mask, self.domains[name]))
        backward(torch.stack([*tagging, *domain]).sum())
        logged = {"loss": torch.stack(tagging).mean()}
        return logged | ({"domain_loss": torch.stack(domain).mean()} if domain else {})
