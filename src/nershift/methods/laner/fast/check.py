"""Is every sentence tagged as token-by-token decoding would tag it? Counted on real sentences."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from nershift.methods.laner.fast.all_prefixes import AllPrefixes
from nershift.methods.laner.fast.fixed_point import fixed_point
from nershift.methods.laner.head import LabelAwareHead

TIE = 1e-4  # two best log probabilities closer than this are a tie that rounding may decide


@torch.no_grad()
def compare(head: LabelAwareHead, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Decode states and masks of ``batches`` both ways.

    Returns:
        numbers of ``sentences``, of those that ``differ``, of those among them with a near tie up to the first
        difference (``near_ties``), and the mean number of parallel ``passes``.
    """
    sentences = differ = ties = passes = 0
    for states, mask in batches:
        fast, plain = fixed_point(head, states, mask), head.greedy(states, mask)
        wrong = fast.tags != plain
        until = wrong.int().cumsum(1) - wrong.int() == 0  # up to and including the first difference
        near = (margins(head, states, mask, plain).masked_fill(~until, float("inf")) < TIE).any(1)
        sentences, differ = sentences + len(mask), differ + int(wrong.any(1).sum())
        ties += int((wrong.any(1) & near).sum())
        passes += int(fast.passes.sum())
    return {"sentences": sentences, "differ": differ, "near_ties": ties, "passes": passes / max(1, sentences)}


def margins(head: LabelAwareHead, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
    """How far the best legal tag is ahead of the second, given the tags before: ``[B, L]``, infinite under padding."""
    scores = AllPrefixes.read(head, states, mask).log_probabilities(tags)
    best = head.legal(scores, tags, mask, 0).topk(2, dim=2).values
    return (best[..., 0] - best[..., 1]).masked_fill(~mask, float("inf"))
