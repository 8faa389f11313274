"""How unsure a tagger is of a sentence, and where the sentence lies among others in the encoder's eyes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nershift.data.spans import Sentence
from nershift.model import TaggingModel


@torch.no_grad()
def uncertainties(model: TaggingModel, key: str, sentences: Sequence[Sentence], batch_size: int = 128) -> Tensor:
    """How unlikely the tagger's own best tags are, a token: ``-log P(best tags) / tokens``, [N] on the CPU.

    All of a sentence is in it, entities that may have been missed no less than those found. Without the division by
    length, long sentences would always come first. A sentence without tokens has no doubt.
    """
    head, out = model.eval().head(key), torch.zeros(len(sentences))
    for rows, batch in model.batches(key, sentences, batch_size):
        states = model.states(batch)
        surprise = head.surprise(states, batch.mask, head.predict(states, batch.mask))
        out[rows] = (surprise / batch.mask.sum(1)).float().cpu()
    return out


@torch.no_grad()
def mean_states(model: TaggingModel, key: str, sentences: Sequence[Sentence], batch_size: int = 128) -> Tensor:
    """The mean encoder state of each sentence, [N, H] where the model is; zero for one without tokens."""
    model.eval()
    out = torch.zeros(len(sentences), model.encoder.size, device=model.device)
    for rows, batch in model.batches(key, sentences, batch_size):
        states = model.states(batch).float()  # [B, L, H], zero under padding
        out[rows] = states.sum(1) / batch.mask.sum(1, keepdim=True)
    return out
