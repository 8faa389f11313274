"""A word table cut down to the rows of a few batches, so that moving it about costs no more than they do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn

from nershift.encoders.base import Encoder
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.encoders.words import WordTable
from nershift.model import Batch


@contextmanager
def narrowed(encoder: Encoder, batches: Sequence[Batch]) -> Iterator[list[Batch]]:
    """Yields the batches with their words renumbered for a table that holds only these words.

    An inner loop that copies, moves and differentiates the whole table spends most of its time on rows that
    no batch reads. On leaving, the gradients of the small table are handed to the large one; its weights are
    not. An encoder without such a table, or with a frozen one, is left as it is.
    """
    words = encoder.words if isinstance(encoder, RecurrentEncoder) else None
    if not isinstance(words, WordTable) or not words.weight.requires_grad:
        yield list(batches)
        return
    full, trained = words.weight, words.trained
    always = torch.arange(2, device=full.device)  # padding and the unknown word keep their places
    used = torch.cat([always, *(batch.inputs["rows"].flatten() for batch in batches)]).unique()  # sorted
    used = used[used < trained]
    moved = []
    for batch in batches:
        rows = batch.inputs["rows"]
        renumbered = torch.where(rows < trained, torch.searchsorted(used, rows), rows - trained + len(used))
        moved.append(replace(batch, inputs=batch.inputs | {"rows": renumbered}))
    words.weight, words.trained = nn.Parameter(full.detach()[used]), len(used)
    try:
        yield moved
    finally:
        gradient = words.weight.grad
        words.weight, words.trained = full, trained
        if gradient is not None:
            if full.grad is None:
                full.grad = torch.zeros_like(full)
            full.grad.index_add_(0, used, gradient)
