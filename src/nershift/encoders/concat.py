"""Several transformers side by side: a token's state is the concatenation of theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nershift.config import CharsConfig, EncoderConfig
from nershift.encoders.base import Encoder, register
from nershift.encoders.transformer import AND, TransformerEncoder, load_pretrained
from nershift.text.subwords import Pieces
from nershift.text.word_cache import Vocabulary


@register("concat", "side-by-side")
class ConcatEncoder(Encoder):
    """``encoder.transformer.name: one+other``. Each reads its own sub-words; characters belong to the first.

    A cased and an uncased encoder, or one of general text and one of a domain, make different mistakes; the head
    learns which to trust.
    """

    pretrained = True
    cuda_graph_safe = True

    def __init__(self, config: EncoderConfig, parts: Sequence[TransformerEncoder]) -> None:
        super().__init__()
        self.config = config
        self.parts = nn.ModuleList(parts)
        self.size = sum(part.size for part in parts)

    @classmethod
    def new(cls, config: EncoderConfig, words: Counter[str]) -> ConcatEncoder:
        parts, characters = [], Vocabulary.letters(words)
        for part in _parts(config):
            model, tokenizer = load_pretrained(part.transformer.name)
            parts.append(TransformerEncoder(part, model, tokenizer, characters))
        return cls(config, parts)

    @property
    def encoders(self) -> list[TransformerEncoder]:
        return [part for part in self.parts if isinstance(part, TransformerEncoder)]

    def prepare(self, tokens: Sequence[str]) -> tuple[Pieces, ...]:
        return tuple(part.prepare(tokens) for part in self.encoders)

    def collate(self, items: Sequence[tuple[Pieces, ...]]) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {}
        for n, part in enumerate(self.encoders):
            inputs = part.collate([item[n] for item in items])
            out |= {f"{name}_{n}": value for name, value in inputs.items() if name != "mask"}
            out["mask"] = inputs["mask"]
        return out

    def forward(self, **inputs: Tensor) -> Tensor:
        states = []
        for n, part in enumerate(self.encoders):
            own = {k.removesuffix(f"_{n}"): v for k, v in inputs.items() if k.endswith(f"_{n}")}
            states.append(part(**own, mask=inputs["mask"]))
        return torch.cat(states, -1)  # [B, L, sum of sizes]

    def word_parameters(self) -> list[nn.Parameter]:
        return [p for part in self.encoders for p in part.word_parameters()]

    def learn_words(self, words: Iterable[str]) -> None:
        words = list(words)
        for part in self.encoders:
            part.learn_words(words)

    def forget(self) -> None:
        for part in self.encoders:
            part.forget()

    def forget_beyond(self, limit: int) -> None:
        for part in self.encoders:
            part.forget_beyond(limit)

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"characters": self.encoders[0].characters.words[2:]}

    def save_files(self, folder: str) -> None:
        for n, part in enumerate(self.encoders):
            part.save_files(str(Path(folder, f"encoder-{n}")))

    @classmethod
    def rebuild(cls, config: EncoderConfig, description: Mapping[str, Any], folder: str) -> ConcatEncoder:
        parts = [
            TransformerEncoder.rebuild(part, description, str(Path(folder, f"encoder-{n}")))
            for n, part in enumerate(_parts(config))
        ]
        return cls(config, parts)


def _parts(config: EncoderConfig) -> list[EncoderConfig]:
    """The settings of each encoder."""
    parts = []
    for n, name in enumerate(config.transformer.name.split(AND)):
        part = replace(config, transformer=replace(config.transformer, name=name.strip()))
        parts.append(part if n == 0 else replace(part, chars=CharsConfig(use=False)))
    return parts
