"""Losses of a sentence from the losses of its tokens: their mean, and the largest on top of it."""

from __future__ import annotations

from torch import Tensor

from nershift.heads.softmax import SoftmaxHead


def token_losses(head: SoftmaxHead, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
    """Cross-entropy of each token, zero under padding; [B, L]."""
    chosen = head.log_probabilities(states).gather(2, tags.masked_fill(~mask, 0)[..., None])[..., 0]
    return (-chosen).masked_fill(~mask, 0.0)


def mean_and_max(losses: Tensor, mask: Tensor, weight: float = 0.0) -> Tensor:
    """Eq. 3, and with a ``weight`` λ eq. 13 of the MetaCross paper, for each sentence.

    The paper's equations have a minus before cross-entropies that are minimised; here all terms are positive
    losses, so that a larger λ presses harder on the worst token.

    Args:
        losses: of tokens, at least 0, zero under padding; [B, L].
        mask: bool, [B, L].

    Returns:
        [B].

    Example:
        >>> import torch
        >>> mean_and_max(torch.tensor([[1.0, 3.0, 0.0]]), torch.tensor([[True, True, False]]), weight=2.0)
        tensor([8.])
    """
    mean = losses.sum(1) / mask.sum(1).clamp(min=1)
    return mean + weight * losses.amax(1) if weight else mean
