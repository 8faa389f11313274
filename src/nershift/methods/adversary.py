"""Gradient reversal and a discriminator that tells domains apart from encoder states."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return -ctx.factor * grad, None


def reverse(x: Tensor, factor: float = 1.0) -> Tensor:
    """The same values, whose gradient is multiplied by ``-factor`` on its way back.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> reverse(x, 0.5).sum().backward()
        >>> x.grad
        tensor([-0.5000, -0.5000])
    """
    reversed_: Tensor = _Reverse.apply(x, factor)
    return reversed_


class AttentionPool(nn.Module):
    """One vector a sentence: the mean of its states, weighted by ``softmax(tanh(h · P + p))`` (eqs. 9-10)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.empty(size).uniform_(-1, 1) * (3 / size) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(()))

    def weights(self, states: Tensor, mask: Tensor) -> Tensor:
        """``[B, L]``, summing to one over the tokens of each sentence; exactly zero under padding."""
        scores = torch.tanh(states @ self.vector + self.bias)  # [B, L]
        return torch.softmax(scores.masked_fill(~mask, float("-inf")), 1)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        return (self.weights(states, mask)[:, None] @ states)[:, 0]  # [B, 1, L] @ [B, L, H] -> [B, H]


class Discriminator(nn.Module):
    """From states ``[B, L, size]`` to scores of ``domains`` classes, ``[B, domains]`` (γ; MetaNER eqs. 9-11).

    It always learns to tell domains apart; whoever wants the encoder to learn the opposite reverses the
    gradient of the states handed in. The hidden layer is smooth, for second-order gradients pass through it.
    """

    def __init__(self, size: int, domains: int, hidden: int = 100) -> None:
        super().__init__()
        self.pool = AttentionPool(size)
        self.mlp = nn.Sequential(nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, domains))

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        scores: Tensor = self.mlp(self.pool(states, mask))
        return scores

    def loss(self, states: Tensor, mask: Tensor, domain: int) -> Tensor:
        """Mean cross-entropy of sentences that all come from ``domain`` (eq. 13)."""
        scores = self(states, mask)
        return functional.cross_entropy(scores, scores.new_full((len(scores),), domain, dtype=torch.long))
