"""Figure 2: shared input layer, a generator of BiLSTM weights, one CRF per label set and one softmax for all LMs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn.functional import pad

from nershift.encoders.recurrent import RecurrentEncoder
from nershift.heads.base import Head
from nershift.methods.crosslm.generated import LSTMGenerator
from nershift.methods.crosslm.sampled_softmax import SampledSoftmax
from nershift.model import TaggingModel

NER, LM = "ner", "lm"


class CrossLMModel(TaggingModel):
    """``encoder.recurrent`` is not trained: it holds the generated weights of the domain to be decoded."""

    encoder: RecurrentEncoder

    def __init__(
        self,
        encoder: RecurrentEncoder,
        heads: Mapping[str, Head],
        generator: LSTMGenerator,
        lm: SampledSoftmax | None = None,
    ) -> None:
        super().__init__(encoder, heads)
        encoder.recurrent.requires_grad_(False)
        self.generator, self.lm = generator, lm

    def embed(self, inputs: Sequence[Mapping[str, Tensor]]) -> list[Tensor]:
        """Eq. 1 for several batches, ``[B, L, F]`` each, in one pass over their distinct words."""
        longest = max(part["chars"].shape[1] for part in inputs)
        chars = [pad(part["chars"], (0, longest - part["chars"].shape[1])) for part in inputs]
        first = list(accumulate([len(part["rows"]) for part in inputs], initial=0))
        where = [(part["where"] + at).flatten() for part, at in zip(inputs, first, strict=False)]
        x = self.encoder.embed(torch.cat([part["rows"] for part in inputs]), torch.cat(chars), torch.cat(where))
        parts = x.split([len(w) for w in where])  # [B · L, F] each
        return [own.view(*part["where"].shape, -1) for own, part in zip(parts, inputs, strict=True)]

    def use_weights_of(self, domain: str) -> None:
        """Give the encoder's own LSTM the weights of (domain, NER), so that the model decodes that domain."""
        self.generator.write(self.encoder.recurrent, {"domain": domain, "task": NER})

    def deployable(self, key: str) -> TaggingModel:
        """A plain BiLSTM-CRF with the weights of (target, NER)."""
        self.use_weights_of("target")
        self.encoder.recurrent.requires_grad_(True)
        return super().deployable(key)
