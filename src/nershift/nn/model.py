"""A tagging model: one encoder θ, a decoder φ for each label space, and extra parts that a method trains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nershift.data.spans import Sentence, Span, by_length
from nershift.nn.decoders import Decoder
from nershift.nn.encoder import Encoder


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
    """``decoders[key]`` reads the states of ``encoder`` for the label space called ``key``."""

    def __init__(
        self, encoder: Encoder, decoders: Mapping[str, Decoder], extras: Mapping[str, nn.Module] | None = None
    ):
        super().__init__()
        self.encoder = encoder
        self.decoders = nn.ModuleDict()
        for key, decoder in decoders.items():
            self.add_decoder(key, decoder)
        self.extras = nn.ModuleDict(extras or {})

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def add_decoder(self, key: str, decoder: Decoder) -> None:
        self.decoders[_module_name(key)] = decoder

    def decoder(self, key: str) -> Decoder:
        found = self.decoders[_module_name(key)]
        assert isinstance(found, Decoder)
        return found

    def named_decoders(self) -> list[tuple[str, Decoder]]:
        return [
            (name.removeprefix("for:").replace("·", "."), d)
            for name, d in self.decoders.items()
            if isinstance(d, Decoder)
        ]

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
        return np.array(self.decoder(key).space.encode(sentence.spans, len(sentence), sentence.place))

    def states(self, batch: Batch) -> Tensor:
        return self.encoder(**batch.inputs)  # [B, L, H]

    def loss(self, batch: Batch, states: Tensor | None = None) -> Tensor:
        """Mean negative log-likelihood a sentence."""
        if states is None:
            states = self.states(batch)
        assert batch.tags is not None, "a batch of raw text has no tags to learn from"
        return self.decoder(batch.key).loss(states, batch.mask, batch.tags).mean()

    def predict(
        self, key: str, sentences: Sequence[Sentence], batch_size: int = 128, confidence: bool = False
    ) -> list[Sentence]:
        """The same sentences with predicted spans, in the same order."""
        return self.predict_batches(sentences, self.batches(key, sentences, batch_size), confidence)

    def batches(
        self, key: str, sentences: Sequence[Sentence], batch_size: int
    ) -> Iterator[tuple[list[int], Batch]]:
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
        decoder = self.decoder(batch.key)
        if states is None:
            states = self.states(batch)
        spans = [decoder.space.decode(ids) for ids in decoder.decode(states, batch.mask)]
        if not confidence:
            return spans
        scores = decoder.confidences(states, batch.mask, spans)
        return [
            [Span(s.start, s.end, s.label, c) for s, c in zip(row, given, strict=True)]
            for row, given in zip(spans, scores, strict=True)
        ]


def _module_name(key: str) -> str:
    """A module's name must not hold a dot, nor be an attribute of one (a corpus may be called `train`)."""
    return "for:" + key.replace(".", "·")
