"""The base model, a transformer with a softmax for each token (eqs. 1-2), and its losses (eqs. 3 and 13)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nershift.data.spans import Sentence
from nershift.encoders.transformer import TransformerEncoder
from nershift.errors import ConfigError
from nershift.heads.softmax import SoftmaxHead
from nershift.model import Batch, TaggingModel
from nershift.text.subwords import Pieces


def transformer_of(model: TaggingModel) -> TransformerEncoder:
    if not isinstance(model.encoder, TransformerEncoder):
        raise ConfigError(
            f"found a {type(model.encoder).__name__}", place="encoder", expected="a single transformer encoder"
        )
    return model.encoder


def softmax_of(model: TaggingModel, key: str) -> SoftmaxHead:
    head = model.head(key)
    if not isinstance(head, SoftmaxHead):
        raise ConfigError(f"found '{head.kind}'", place="head.kind", expected="softmax")
    return head


def labelled_batch(
    model: TaggingModel, key: str, sentences: Sequence[Sentence], pieces: Sequence[Pieces] | None = None
) -> Batch:
    """A batch with gold tags; ``pieces`` are what the encoder prepared, if that is known."""
    pieces = pieces or [model.encoder.prepare(s.tokens) for s in sentences]
    return model.batch(key, sentences, pieces, [model.head(key).targets(s) for s in sentences])


def sentence_losses(model: TaggingModel, batch: Batch, weight: float = 0.0) -> Tensor:
    """Eq. 3 of each sentence, or eq. 13 with λ = ``weight``; [B]."""
    assert batch.targets is not None
    losses = token_losses(softmax_of(model, batch.key), model.states(batch), batch.mask, batch.targets)
    return mean_and_max(losses, batch.mask, weight)


def token_losses(head: SoftmaxHead, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
    """Cross-entropy of each token, zero under padding; [B, L]."""
    chosen = head.log_probabilities(states).gather(2, tags.masked_fill(~mask, 0)[..., None])[..., 0]  # eq. 2
    return (-chosen).masked_fill(~mask, 0.0)


def mean_and_max(losses: Tensor, mask: Tensor, weight: float = 0.0) -> Tensor:
    """Eq. 3 of each sentence, or eq. 13 with λ = ``weight``.

    The paper writes a minus before cross-entropies that it minimises. Here every term is a positive loss, so that a
    larger λ puts more weight on the worst token.

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
    mean = losses.sum(1) / mask.sum(1).clamp(min=1)  # eq. 3
    return mean + weight * losses.amax(1) if weight else mean  # eq. 13
