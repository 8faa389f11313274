"""Is every sentence tagged as step-by-step decoding would tag it? Counted on real sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nershift.data.spans import Sentence
from nershift.methods.laner.fast.search import fixed_point, step_by_step
from nershift.methods.laner.head import LabelAwareHead
from nershift.model import TaggingModel

TIE = 1e-4  # two best log probabilities nearer than this are a tie that rounding may decide


@torch.no_grad()
def compare_decoding(
    model: TaggingModel, key: str, sentences: Sequence[Sentence], batch_size: int = 128
) -> dict[str, Any]:
    """Decode by fixed point and from left to right.

    Returns:
        numbers of sentences, of those that ``differ``, of those among them with a near tie (``near_ties``: where the
        two best tags were less than 1e-4 apart up to the first difference), and mean ``passes`` and rough ``rounds``.
    """
    head = model.head(key)
    assert isinstance(head, LabelAwareHead)
    model.eval()
    seen = differ = ties = passes = rounds = 0
    for _, batch in model.batches(key, sentences, batch_size):
        states = model.states(batch)
        fast = fixed_point(head, states, batch.mask)
        slow, ahead = step_by_step(head, states, batch.mask)
        wrong = fast.tags != slow
        before = wrong.int().cumsum(1) - wrong.int() == 0  # up to and including the first difference
        near = ahead.masked_fill(~before, float("inf")).amin(1) < TIE
        seen, differ = seen + len(batch), differ + int(wrong.any(1).sum())
        ties += int((wrong.any(1) & near).sum())
        passes, rounds = passes + int(fast.passes.sum()), rounds + int(fast.rounds.sum())
    return {
        "sentences": seen,
        "differ": differ,
        "near_ties": ties,
        "passes": passes / max(1, seen),
        "rounds": rounds / max(1, seen),
    }
