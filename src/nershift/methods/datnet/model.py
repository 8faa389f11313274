"""Figure 1: the target's tagger, the source's beside it, and a discriminator over the layer they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from nershift.data.spans import Sentence
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.heads.base import Head
from nershift.methods.base import TARGET
from nershift.methods.datnet.crf_view import CRFView
from nershift.methods.datnet.grad_loss import ResourceDiscriminator
from nershift.methods.datnet.shared_private import shared_part
from nershift.model import TaggingModel


class ResourceModel(TaggingModel):
    """The tagger of one resource, source or target."""

    encoder: RecurrentEncoder

    def __init__(self, encoder: RecurrentEncoder, heads: Mapping[str, Head]) -> None:
        super().__init__(encoder, heads)

    @torch.no_grad()
    def pooled_states(self, key: str, sentences: Sequence[Sentence], batch_size: int = 64) -> Tensor:
        """The mean shared state of each sentence, ``[N, shared]``, on the CPU (what Figure 3 draws)."""
        was_training = self.training
        self.eval()
        rows: dict[int, Tensor] = {}
        for part, batch in self.batches(key, sentences, batch_size):
            states = shared_part(self.encoder, self.states(batch))  # [B, L, shared]
            means = states.sum(1) / batch.mask.sum(1, keepdim=True)  # states are zero under padding
            rows |= dict(zip(part, means.float().cpu(), strict=True))
        self.train(was_training)
        return torch.stack([rows[i] for i in sorted(rows)])


class DATNetModel(ResourceModel):
    """The target's tagger, which is deployed; beside it the source's and the discriminator, if it has them."""

    def __init__(
        self,
        encoder: RecurrentEncoder,
        head: Head,
        source: ResourceModel | None = None,
        discriminator: ResourceDiscriminator | None = None,
    ) -> None:
        super().__init__(encoder, {TARGET: head})
        self.source, self.discriminator = source, discriminator

    def deployable(self, key: str = TARGET) -> TaggingModel:
        head = self.head(key)
        kept = head.plain() if isinstance(head, CRFView) else head
        return TaggingModel(self.encoder, {TARGET: kept}).to(self.device)
