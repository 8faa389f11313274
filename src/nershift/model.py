"""A tagging model: one encoder θ, a head φ for each label space, and extra parts that a method trains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nershift.data.spans import Sentence, Span, by_length
from nershift.encoders.base import Encoder
from nershift.heads.base import Head


@dataclass
class Batch:
    """Sentences of one domain as tensors. ``tags`` is there when they are labelled."""

    key: str
    sentences: Sequence[Sentence]
    inputs: dict[str, Tensor]
    tags: Tensor | None = None  # [B, L]

    @property
    def mask(self) -> Tensor:
        return self.inputs["mask"]  # [B, L]

    def __len__(self) -> int:
        return len(self.sentences)

    def to(self, device: torch.device | str) -> Batch:
        # Packing of recurrent sequences wants lengths on the CPU.
        moved = {k: v if k == "lengths" else v.to(device, non_blocking=True) for k, v in self.inputs.items()}
        tags = self.tags.to(device, non_blocking=True) if self.tags is not None else None
        return Batch(self.key, self.sentences, moved, tags)


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
        found = self.heads[_module_name(key)]
        assert isinstance(found, Head)
        return found

    def named_heads(self) -> list[tuple[str, Head]]:
        return [
            (name.removeprefix("for:").replace("·", "."), d) for name, d in self.heads.items() if isinstance(d, Head)
        ]

    def deployable(self, key: str) -> TaggingModel:
        """The tagger of one head, now under ``target``, without the parts that only training needs."""
        return TaggingModel(self.encoder, {"target": self.head(key)}).to(self.device)

    def batch(
        self,
        key: str,
        sentences: Sequence[Sentence],
        prepared: Sequence[Any],
        tags: Sequence[np.ndarray] | None = None,
    ) -> Batch:
        """A batch on the model's device from what ``encoder.prepare`` and :meth:`encode_tags` gave."""
        inputs = self.encoder.collate(prepared)
        padded = None
        if tags is not None:
            padded = torch.zeros(inputs["mask"].shape, dtype=torch.long)
            padded[inputs["mask"]] = torch.from_numpy(np.concatenate(tags))
        return Batch(key, sentences, inputs, padded).to(self.device)

    def encode_tags(self, key: str, sentence: Sentence) -> np.ndarray:
        return np.array(self.head(key).space.encode(sentence.spans, len(sentence), sentence.place))

    def states(self, batch: Batch) -> Tensor:
        return self.encoder(**batch.inputs)  # [B, L, H]

    def loss(self, batch: Batch, states: Tensor | None = None) -> Tensor:
        """Mean negative log-likelihood a sentence."""
        if states is None:
            states = self.states(batch)
        assert batch.tags is not None, "a batch of raw text has no tags to learn from"
        return self.head(batch.key).loss(states, batch.mask, batch.tags).mean()

    def predict(
        self, key: str, sentences: Sequence[Sentence], batch_size: int = 128, confidence: bool = False
    ) -> list[Sentence]:
        """The same sentences with predicted spans, in the same order."""
        return self.predict_batches(sentences, self.batches(key, sentences, batch_size), confidence)

    def batches(self, key: str, sentences: Sequence[Sentence], batch_size: int) -> Iterator[tuple[list[int], Batch]]:
        """Sentences of like length together: their places, and the batch."""
        for part in by_length(sentences, batch_size):
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
        head = self.head(batch.key)
        if states is None:
            states = self.states(batch)
        spans = [head.space.decode(ids) for ids in head.decode(states, batch.mask)]
        if not confidence:
            return spans
        scores = head.confidences(states, batch.mask, spans)
        return [
            [Span(s.start, s.end, s.label, c) for s, c in zip(row, given, strict=True)]
            for row, given in zip(spans, scores, strict=True)
        ]


def _module_name(key: str) -> str:
    """A module's name must not hold a dot, nor be an attribute of one (a corpus may be called `train`)."""
    return "for:" + key.replace(".", "·")
