"""A tagging model: one encoder θ, a head φ for each label space, and extra parts that a method trains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from nershift.data.spans import Sentence, Span
from nershift.encoders.base import Encoder
from nershift.encoders.learned_rates import LearnedRates
from nershift.errors import SetupError
from nershift.heads.base import Head, Targets, on_device, pad_targets
from nershift.heads.soft import SoftTargets
from nershift.text.batches import bounded_batches


@dataclass
class Batch:
    """Sentences of one domain as tensors, with ``targets`` where they are labelled or ``soft`` ones of a teacher."""

    key: str
    sentences: Sequence[Sentence]
    inputs: dict[str, Tensor]
    targets: Tensor | None = None  # of the head, [B, L, …]
    soft: SoftTargets | None = None  # of a teacher's head

    @property
    def mask(self) -> Tensor:
        return self.inputs["mask"]  # [B, L]

    def __len__(self) -> int:
        return len(self.sentences)

    def to(self, device: torch.device | str) -> Batch:
        targets = self.targets.to(device, non_blocking=True) if self.targets is not None else None
        soft = self.soft.to(device) if self.soft is not None else None
        return Batch(self.key, self.sentences, on_device(self.inputs, device), targets, soft)


class TaggingModel(nn.Module):
    """``heads[key]`` reads the states of ``encoder`` for the label space called ``key``."""

    def __init__(self, encoder: Encoder, heads: Mapping[str, Head], extras: Mapping[str, nn.Module] | None = None):
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleDict()
        for key, head in heads.items():
            self.add_head(key, head)
        self.extras = nn.ModuleDict(extras or {})

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def add_head(self, key: str, head: Head) -> None:
        self.heads[_module_name(key)] = head

    def head(self, key: str) -> Head:
        return cast(Head, self.heads[_module_name(key)])

    def named_heads(self) -> list[tuple[str, Head]]:
        return [(name.removeprefix("for:").replace("·", "."), cast(Head, head)) for name, head in self.heads.items()]

    @property
    def learned_rates(self) -> LearnedRates | None:
        """What a method has learned about the rates at which the encoder should be trained further."""
        return cast(LearnedRates, self.extras["learned_rates"]) if "learned_rates" in self.extras else None

    def rate_factors(self) -> dict[nn.Parameter, float]:
        """Factors on the learning rates of weights; none while they are being learned."""
        rates = self.learned_rates
        return {} if rates is None or rates.log.requires_grad else rates.factors(self.encoder)

    def deployable(self, key: str) -> TaggingModel:
        """The tagger of one head, now under ``target``, without the parts that only training needs."""
        return TaggingModel(self.encoder, {"target": self.head(key)}).to(self.device)

    def batch(
        self,
        key: str,
        sentences: Sequence[Sentence],
        prepared: Sequence[Any],
        targets: Sequence[Targets] | None = None,
    ) -> Batch:
        """A batch on the model's device from what ``encoder.prepare`` and ``head.targets`` gave."""
        inputs = self.encoder.collate(prepared)
        padded = pad_targets(targets, inputs["mask"]) if targets is not None else None
        return Batch(key, sentences, inputs, padded).to(self.device)

    def states(self, batch: Batch) -> Tensor:
        return self.encoder(**batch.inputs)  # [B, L, H]

    def forward(self, batch: Batch) -> Tensor:
        """Mean negative log-likelihood of the batch's sentences: encoder, then the head of the batch's key."""
        return self.loss(batch, self.states(batch))

    def loss(self, batch: Batch, states: Tensor) -> Tensor:
        """:meth:`forward` for those who have the states already."""
        if batch.soft is not None:
            return self.head(batch.key).soft_loss(states, batch.mask, batch.soft).mean()
        if batch.targets is None:
            raise SetupError(f"the batch of '{batch.key}' is raw text: it has nothing to learn from")
        return self.head(batch.key).loss(states, batch.mask, batch.targets).mean()

    def predict(
        self, key: str, sentences: Sequence[Sentence], batch_size: int = 128, confidence: bool = False
    ) -> list[Sentence]:
        """The same sentences with predicted spans, in the same order."""
        return self.predict_batches(sentences, self.batches(key, sentences, batch_size), confidence)

    def batches(self, key: str, sentences: Sequence[Sentence], batch_size: int) -> Iterator[tuple[list[int], Batch]]:
        """Sentences of like length together: their places, and the batch."""
        for part in bounded_batches(sentences, batch_size):
            chosen = [sentences[i] for i in part]
            yield part, self.batch(key, chosen, [self.encoder.prepare(s.tokens) for s in chosen])

    @torch.no_grad()
    def predict_batches(
        self,
        sentences: Sequence[Sentence],
        batches: Iterable[tuple[Sequence[int], Batch]],
        confidence: bool = False,
    ) -> list[Sentence]:
        """:meth:`predict` for those who keep the ``batches`` of a text that they come back to."""
        was_training = self.training
        self.eval()
        out: list[Sentence] = [s.with_spans(()) for s in sentences]
        for part, batch in batches:
            for i, spans in zip(part, self.spans(batch, confidence), strict=True):
                out[i] = sentences[i].with_spans(spans)
        self.train(was_training)
        return out

    def spans(self, batch: Batch, confidence: bool = False, states: Tensor | None = None) -> list[list[Span]]:
        """Predicted spans of each sentence of a batch, whose ``states`` may be known already."""
        states = self.states(batch) if states is None else states
        head = self.head(batch.key)
        return head.predict_scored(states, batch.mask) if confidence else head.predict(states, batch.mask)


def _module_name(key: str) -> str:
    """A module's name must not hold a dot, nor be an attribute of one (a corpus may be called `train`)."""
    return "for:" + key.replace(".", "·")
