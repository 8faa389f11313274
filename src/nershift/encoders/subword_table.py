"""Word vectors as means of frozen sub-word rows: every word of every language has one, seen in training or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from nershift.config import WordsConfig
from nershift.errors import CheckpointError
from nershift.storage import write_text
from nershift.text.subword_vectors import SubwordTokenizer, SubwordVectors
from nershift.text.word_cache import PAD, UNKNOWN, Vocabulary

_FILE = "words.tokenizer.json"


class OpenVocabulary(Vocabulary):
    """A vocabulary that knows every word: a new one is split into sub-words and added."""

    def __init__(self, tokenizer: SubwordTokenizer, lower: bool) -> None:
        super().__init__()
        self.tokenizer, self.lower = tokenizer, lower
        unknown = tokenizer.unknown
        self.pieces: list[list[int]] = [[], [] if unknown is None else [unknown]]

    def find(self, word: str) -> int:
        word = word.lower() if self.lower else word
        known = self.index.get(word)
        if known is not None and word not in (PAD, UNKNOWN):
            return known
        pieces = self.tokenizer.pieces(word)
        if not pieces:
            return 1
        self.extend([word])
        self.pieces.append(pieces)
        return len(self) - 1


class SubwordTable(nn.Module):
    """Replaces :class:`~nershift.encoders.words.WordTable`, without a row per word.

    The rows of sub-words are stored in half precision and frozen.
    """

    table: Tensor
    _pieces: Tensor

    def __init__(self, config: WordsConfig, tokenizer: SubwordTokenizer, rows: int, size: int) -> None:
        super().__init__()
        self.config, self.tokenizer, self.size = config, tokenizer, size
        self.register_buffer("table", torch.zeros(rows, size, dtype=torch.half))
        self.forget()

    @classmethod
    def of(cls, config: WordsConfig, vectors: SubwordVectors) -> SubwordTable:
        table = cls(config, vectors.tokenizer, *vectors.matrix.shape)
        table.table.copy_(torch.from_numpy(vectors.matrix))
        return table

    def forget(self) -> None:
        """Drop the words added so far; their numbers become invalid."""
        self.vocabulary = OpenVocabulary(self.tokenizer, self.config.lower)
        self.register_buffer(
            "_pieces", torch.full((0, 1), -1, device=self.table.device), persistent=False
        )  # [words, P], -1: none

    def forward(self, rows: Tensor) -> Tensor:
        if len(self._pieces) < len(self.vocabulary):
            self._catch_up()
        if self.training and self.config.word_dropout:
            rows = rows.masked_fill(torch.rand(rows.shape, device=rows.device) < self.config.word_dropout, 1)
        pieces = self._pieces[rows]  # [U, P]
        real = (pieces >= 0)[..., None]
        vectors = self.table[pieces.clamp(min=0)].float() * real  # [U, P, size]
        return vectors.sum(-2) / real.sum(-2).clamp(min=1)

    def vectors(self) -> Tensor:
        """The vectors of all words added so far, ``[rows, size]``."""
        return self(torch.arange(len(self.vocabulary), device=self.table.device))

    def _catch_up(self) -> None:
        """Copy the sub-words of new words to the device."""
        new = self.vocabulary.pieces[len(self._pieces) :]
        width = max(self._pieces.shape[1], *map(len, new))
        rows = torch.tensor([[*pieces, *[-1] * (width - len(pieces))] for pieces in new])
        before = pad(self._pieces, (0, width - self._pieces.shape[1]), value=-1)
        self._pieces = torch.cat([before, rows.to(before.device)])

    def learn(self, words: Iterable[str]) -> None:
        """Nothing to do: every word is known."""

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "subwords",
            "rows": len(self.table),
            "size": self.size,
            "lower": self.config.lower,
            "drop": self.config.word_dropout,
        }

    def save_files(self, folder: str) -> None:
        write_text(Path(folder, _FILE), self.tokenizer.text)

    @classmethod
    def rebuild(cls, description: Mapping[str, Any], folder: str) -> SubwordTable:
        path = Path(folder, _FILE)
        if not path.is_file():
            raise CheckpointError("no such file", place=str(path), fix="restore it from the run's folder")
        tokenizer = SubwordTokenizer(path.read_text(encoding="utf-8"), str(path))
        config = WordsConfig(lower=description["lower"], word_dropout=description["drop"], train=False)
        return cls(config, tokenizer, description["rows"], description["size"])
