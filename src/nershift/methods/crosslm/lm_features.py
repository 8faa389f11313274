"""A recurrent encoder that also reads the states of a frozen language model, as with ELMo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nershift.config import EncoderConfig, build
from nershift.encoders.base import register
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.encoders.words import Words
from nershift.errors import ConfigError
from nershift.text.word_cache import Vocabulary

Item = tuple[np.ndarray, np.ndarray]


@register("lm-features")
class LMFeatureEncoder(RecurrentEncoder):
    """Words, characters, and the forward and backward states of ``lm``, scaled by one learned number.

    The language model has its own words and letters, and is frozen.
    """

    not_exportable = "it reads the states of a second encoder, a language model"

    def __init__(self, config: EncoderConfig, words: Words, characters: Vocabulary, lm: RecurrentEncoder) -> None:
        super().__init__(config, words, characters)
        self.lm = lm.requires_grad_(False)
        self.scale = nn.Parameter(torch.ones(()))
        self.recurrent = type(self.recurrent)(
            self.recurrent.input_size + lm.size,
            config.recurrent.size,
            config.recurrent.layers,
            batch_first=True,
            bidirectional=True,
        )

    @classmethod
    def new(cls, config: EncoderConfig, words: Counter[str]) -> LMFeatureEncoder:
        raise ConfigError("method 'bilm' makes it", place="config.encoder.kind", expected="recurrent | transformer")

    @classmethod
    def over(cls, plain: RecurrentEncoder, lm: RecurrentEncoder) -> LMFeatureEncoder:
        """``plain`` with the features of ``lm``; its recurrent layer is wider, so it is new."""
        return cls(plain.config, plain.words, plain.characters, lm)

    def train(self, mode: bool = True) -> LMFeatureEncoder:
        super().train(mode)
        self.lm.eval()  # features have no dropout of their own
        return self

    def forget(self) -> None:
        super().forget()
        if "lm" in self._modules:
            self.lm.forget()

    def prepare(self, tokens: Sequence[str]) -> Item:  # type: ignore[override]
        return super().prepare(tokens), self.lm.prepare(tokens)

    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:  # type: ignore[override]
        own = super().collate([item[0] for item in items])
        lm = self.lm.collate([item[1] for item in items])
        return own | {f"lm_{name}": lm[name] for name in ("rows", "chars", "where")}

    def forward(self, **inputs: Tensor) -> Tensor:
        x = self.embed(inputs["rows"], inputs["chars"], inputs["where"])  # [B, L, F]
        with torch.no_grad():
            features = self.lm.embed(inputs["lm_rows"], inputs["lm_chars"], inputs["lm_where"])
            features = self.lm.contextualise(features, inputs["lengths"])  # [B, L, S]
        features = self.input_dropout(self.scale * features)
        return self.contextualise(torch.cat([x, features], -1), inputs["lengths"])

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"lm": self.lm.describe()}

    @classmethod
    def rebuild(cls, config: EncoderConfig, description: Mapping[str, Any], folder: str) -> LMFeatureEncoder:
        plain = RecurrentEncoder.rebuild(config, description, folder)
        lm = build(EncoderConfig, description["lm"]["config"], f"{folder}/model.json", saved=True)
        return cls.over(plain, RecurrentEncoder.rebuild(lm, description["lm"], folder))
