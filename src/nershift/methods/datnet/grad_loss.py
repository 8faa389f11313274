"""The resource discriminator and its loss GRAD (§3.3, eq. 1), which favours the small resource and hard sentences."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from nershift.heads.base import widened


class ResourceDiscriminator(nn.Module):
    """From states ``[B, L, size]`` to a logit ``[B]``; its sigmoid ``r`` is the probability of the source.

    Additive self-attention, ``softmax(v · tanh(W h))`` over the tokens, pools a sentence; one linear layer makes
    the scalar. It learns to tell the resources apart; the caller reverses the gradient of the states, so that
    the encoder learns the opposite.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.attend = nn.Linear(size, size, bias=False)
        self.vector = nn.Linear(size, 1, bias=False)
        self.score = nn.Linear(size, 1)

    def pool(self, states: Tensor, mask: Tensor) -> Tensor:
        """``[B, size]``; padding has no weight."""
        scores = self.vector(torch.tanh(self.attend(states)))[..., 0]  # [B, L]
        weights = torch.softmax(widened(scores).masked_fill(~mask, float("-inf")), 1)
        return (weights[:, None] @ widened(states))[:, 0]  # [B, 1, L] @ [B, L, size] -> [B, size]

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = self.score(self.pool(states, mask))[..., 0]
        return logits


def grad_loss(logits: Tensor, source: bool, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    """Eq. 1 for each sentence, ``[B]``; all of them come from the source, or all from the target.

    ``alpha`` weighs source sentences, ``1 - alpha`` target sentences. The larger ``gamma``, the less do sentences
    count that are classified well.

    Example:
        >>> even = torch.zeros(1)  # r = 1/2
        >>> grad_loss(even, True, alpha=0.25, gamma=0.0) / grad_loss(even, False, alpha=0.25, gamma=0.0)
        tensor([0.3333])
    """
    weight = alpha if source else 1 - alpha
    signed = widened(logits) if source else -widened(logits)  # large where the sentence is classified correctly
    wrong = torch.exp(gamma * logsigmoid(-signed))  # (1 - r)^γ for the source, r^γ for the target
    return -weight * wrong * logsigmoid(signed)


def plain_loss(logits: Tensor, source: bool) -> Tensor:
    """Cross-entropy of each sentence: the ordinary adversarial discriminator (AD), ``[B]``."""
    return -logsigmoid(widened(logits) if source else -widened(logits))
