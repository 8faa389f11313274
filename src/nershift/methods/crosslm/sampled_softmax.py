"""Language modelling in both directions with a sampled softmax (§3.3-3.4, eqs. 5, 6 and 8)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from nershift.backend.device import look_up
from nershift.heads.base import widened
from nershift.text.counts import BOUNDARY


class SampledSoftmax(nn.Module):
    """Scores ``w_x · h + b_x`` of words; one table for all domains and both directions (θ_nss).

    Each call draws ``negatives`` words by frequency, the same for all its positions; repeated draws count once. A
    negative that is the right word of a position is left out there.

    Args:
        size: of a state.
        frequencies: ``[V]``, how often each word is drawn.
        negatives: draws per call.
        subtract_log_q: subtract ``log P(word is drawn)`` from each score, so that the model learns the distribution
            of the text. With eqs. 5 and 6 as they stand, it would learn that relative to word frequency.
    """

    cumulative: Tensor
    log_drawn: Tensor

    def __init__(
        self,
        size: int,
        frequencies: Sequence[float] | np.ndarray,
        negatives: int = 50,
        subtract_log_q: bool = True,
    ) -> None:
        super().__init__()
        share = torch.as_tensor(np.asarray(frequencies), dtype=torch.float64)
        share = share / share.sum()
        self.negatives, self.subtract_log_q = negatives, subtract_log_q
        bound = size**-0.5
        self.weight = nn.Parameter(torch.empty(len(share), size).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(len(share)))
        self.register_buffer("cumulative", share.cumsum(0).float(), persistent=False)
        drawn = -torch.expm1(negatives * torch.log1p(-share.clamp(max=1 - 1e-12)))  # 1 - (1 - p)^n
        self.register_buffer("log_drawn", drawn.log().float(), persistent=False)

    def draw(self) -> tuple[Tensor, Tensor]:
        """Sorted word ids ``[negatives]``, and which of them repeat the previous one."""
        at = torch.rand(self.negatives, device=self.cumulative.device).sort().values
        words = torch.searchsorted(self.cumulative, at, right=True).clamp(max=len(self.bias) - 1)
        repeated = torch.zeros_like(words, dtype=torch.bool)
        repeated[1:] = words[1:] == words[:-1]
        return words, repeated

    def forward(self, states: Tensor, targets: Tensor) -> Tensor:
        """``-log p`` of the words ``targets [N]`` from ``states [N, size]``, among the negatives of this call."""
        words, repeated = self.draw()
        right = (states * look_up(self.weight, targets)).sum(-1) + self.bias[targets]  # [N]
        wrong = linear(states, self.weight[words], self.bias[words])  # [N, negatives]
        right, wrong = widened(right), widened(wrong)
        if self.subtract_log_q:
            right, wrong = right - self.log_drawn[targets], wrong - self.log_drawn[words]
        excluded = repeated | (words == targets[:, None])  # [N, negatives]
        wrong = wrong.masked_fill(excluded, float("-inf"))
        return torch.logsumexp(torch.cat([right[:, None], wrong], 1), 1) - right  # eqs. 5 and 6

    def exact(self, states: Tensor, targets: Tensor) -> Tensor:
        """``-log p`` of the full softmax, for evaluation."""
        return cross_entropy(widened(linear(states, self.weight, self.bias)), targets, reduction="none")


def language_model_loss(head: SampledSoftmax, states: Tensor, words: Tensor, mask: Tensor) -> Tensor:
    """Eq. 8: half the sum of both directions over the words of a sentence, averaged over sentences.

    Args:
        head: the output layer.
        states: ``[B, L, 2 · size]``, forward states first; a forward state predicts the next word, a backward
            state the previous one.
        words: output ids ``[B, L]``, with ``BOUNDARY`` under padding.
        mask: ``[B, L]``.
    """
    return language_model_losses(head, [(states, words, mask)])[0]


def language_model_losses(head: SampledSoftmax, batches: Sequence[tuple[Tensor, Tensor, Tensor]]) -> list[Tensor]:
    """:func:`language_model_loss` of several batches (states, words, mask), which share their negatives."""
    both, targets = list[Tensor](), list[Tensor]()
    for states, words, _ in batches:
        edge = torch.full_like(words[:, :1], BOUNDARY)
        targets += [
            torch.cat([words[:, 1:], edge], 1).flatten(),
            torch.cat([edge, words[:, :-1]], 1).flatten(),
        ]
        both += [part.flatten(0, 1) for part in states.chunk(2, -1)]  # [BL, size] each
    by_batch = head(torch.cat(both), torch.cat(targets)).split([2 * words.numel() for _, words, _ in batches])
    # Padding is computed too: selecting the other positions would make the CPU wait for the GPU.
    return [
        torch.where(mask.flatten().repeat(2), losses, 0.0).sum() / (2 * len(words))
        for losses, (_, words, mask) in zip(by_batch, batches, strict=True)
    ]
