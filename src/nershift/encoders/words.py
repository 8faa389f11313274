"""Word vectors: trained rows for the words of the training text, frozen ones for the rest of the file."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from nershift.config import WordsConfig
from nershift.encoders.subword_table import SubwordTable
from nershift.encoders.transformer import find_encoder
from nershift.errors import ConfigError
from nershift.text.subword_vectors import read_subwords
from nershift.text.vectors import Vectors, read_vectors
from nershift.text.word_cache import Vocabulary, without_digits

log = logging.getLogger(__name__)


def row_name(word: str, lower: bool, known: Container[str]) -> str:
    """The row that a training word learns in: numbers of the same shape share one, unless the word is ``known``.

    Example:
        >>> row_name("Part-12", True, {"part"}), row_name("1996", True, {"1996"})
        ('part-00', '1996')
    """
    word = word.lower() if lower else word
    return word if word in known else without_digits(word)


class WordTable(nn.Module):
    """Row r of a word is trained when ``r < trained``, else it is row ``r - trained`` of the frozen reserve.

    Keeping the two apart lets the optimiser work on words of the training text only, while a deployed tagger still
    knows every word of the vector file (up to ``words.extra_words``).
    """

    reserve: Tensor

    def __init__(self, config: WordsConfig, trained: Iterable[str], reserve: Iterable[str], size: int) -> None:
        super().__init__()
        self.config, self.size = config, size
        self.vocabulary = Vocabulary(trained)
        self.trained = len(self.vocabulary)
        self.vocabulary.extend(reserve)
        bound = (3 / size) ** 0.5
        weight = torch.empty(self.trained, size).uniform_(-bound, bound)
        weight[0] = 0
        self.weight = nn.Parameter(weight, requires_grad=config.train)
        self.register_buffer("reserve", torch.zeros(len(self.vocabulary) - self.trained, size))

    @torch.no_grad()
    def fill(self, words: Sequence[str], vectors: Tensor) -> None:
        """Set the rows, trained and frozen, of ``words`` to ``vectors [len(words), size]``."""
        rows = torch.tensor([self.vocabulary.index[word] for word in words], dtype=torch.long)
        trained = rows < self.trained
        self.weight[rows[trained]] = vectors[trained]
        self.reserve[rows[~trained] - self.trained] = vectors[~trained]

    def forward(self, rows: Tensor) -> Tensor:
        if self.training and self.config.word_dropout:
            rows = rows.masked_fill(torch.rand(rows.shape, device=rows.device) < self.config.word_dropout, 1)
        out = embedding(rows.clamp(max=self.trained - 1), self.weight, padding_idx=0)
        if len(self.reserve):
            frozen = embedding((rows - self.trained).clamp(min=0), self.reserve)
            out = torch.where((rows >= self.trained)[..., None], frozen, out)
        return out

    def vectors(self) -> Tensor:
        """The vectors of all known words, ``[rows, size]``."""
        return torch.cat([self.weight, self.reserve])

    @torch.no_grad()
    def learn(self, words: Iterable[str]) -> None:
        """Give words of new training text trained rows, from their frozen vectors or at random."""
        new, seen = [], set(self.vocabulary.words[: self.trained])
        for word in words:
            if word not in seen:
                seen.add(word)
                new.append(word)
        if not new:
            return
        bound = (3 / self.size) ** 0.5
        rows = torch.empty(len(new), self.size, device=self.weight.device).uniform_(-bound, bound)
        for i, word in enumerate(new):
            known = self.vocabulary.find(word)
            if known >= self.trained:
                rows[i] = self.reserve[known - self.trained]
            elif known > 1:
                rows[i] = self.weight[known]
        kept = [w for w in self.vocabulary.words[self.trained :] if w not in seen]
        reserve = self.reserve[[self.vocabulary.index[w] - self.trained for w in kept]]
        before = self.vocabulary.words[2 : self.trained]
        self.weight = nn.Parameter(torch.cat([self.weight, rows]), requires_grad=self.config.train)
        self.register_buffer("reserve", reserve)
        self.vocabulary = Vocabulary([*before, *new])
        self.trained = len(self.vocabulary)
        self.vocabulary.extend(kept)

    def describe(self) -> dict[str, Any]:
        words = self.vocabulary.words
        return {
            "size": self.size,
            "drop": self.config.word_dropout,
            "train": self.config.train,
            "trained": words[2 : self.trained],
            "reserve": words[self.trained :],
        }

    @classmethod
    def rebuild(cls, description: Mapping[str, Any]) -> WordTable:
        config = WordsConfig(word_dropout=description["drop"], train=description["train"])
        return cls(config, description["trained"], description["reserve"], description["size"])


Words = WordTable | SubwordTable


def make_words(settings: WordsConfig, words: Counter[str]) -> Words:
    """Word vectors for a text with these words: from a file, from an encoder's sub-words, or random."""
    if settings.subwords:
        return _subwords(settings)
    if not settings.vectors:
        return WordTable(settings, sorted({row_name(w, settings.lower, ()) for w in words}), (), settings.size)
    path = find_vectors(settings.vectors)
    vectors = _vectors(path, path.stat().st_mtime_ns)
    log.info("%s", vectors.coverage(words))
    known = {row_name(w, settings.lower, vectors.index) for w in words}
    if not settings.train:  # a random row that never learns is useless: such words stay unknown
        known = {w for w in known if vectors.find(w) is not None}
    trained = sorted(known)
    # With `lower`, a cased row of the file would shadow the trained row of its lower-cased form.
    reserve = [w for w in vectors.words if w not in known and not (settings.lower and w != w.lower())]
    reserve = reserve[: settings.extra_words]
    table = WordTable(settings, trained, reserve, vectors.dim)
    rows = {word: vectors.find(word) for word in trained} | {word: vectors.index[word] for word in reserve}
    rows_of = {word: row for word, row in rows.items() if row is not None}
    table.fill(list(rows_of), torch.from_numpy(vectors.matrix)[list(rows_of.values())])
    return table


def _subwords(settings: WordsConfig) -> SubwordTable:
    wrong = "encoder.words.vectors is set too" if settings.vectors else ""
    wrong = wrong or ("encoder.words.train is true, but rows of sub-words are frozen" * settings.train)
    if wrong:
        raise ConfigError(
            wrong,
            place="encoder.words.subwords",
            expected="one source of vectors, and train: false",
            fix="--set encoder.words.vectors= --set encoder.words.train=false",
        )
    return SubwordTable.of(settings, read_subwords(find_encoder(settings.subwords), settings.size))


def find_vectors(name: str) -> Path:
    """A path, or a file name in the folder ``NERSHIFT_VECTORS`` (so that a config fits every machine)."""
    folder = os.environ.get("NERSHIFT_VECTORS", "")
    for path in (Path(name), Path(folder, name)):
        if path.is_file():
            return path
    raise ConfigError(
        f"no file '{name}'",
        place="encoder.words.vectors",
        expected="a text file of word vectors (GloVe, word2vec, fastText)",
        fix="check the path, or set NERSHIFT_VECTORS to the folder that holds the file",
    )


@lru_cache(maxsize=2)
def _vectors(path: Path, changed: int) -> Vectors:
    return read_vectors(path)
