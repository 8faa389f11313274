"""The input features of a word: its vector (trained, or frozen from a file) and a CNN over its characters."""

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
from torch.nn.functional import conv1d, embedding, embedding_bag, pad

from nershift.backend.device import double_backward_wanted
from nershift.config import CharsConfig, WordsConfig
from nershift.encoders.subword_table import SubwordTable
from nershift.errors import ConfigError
from nershift.text.subword_vectors import find_encoder, read_subwords
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


class CharCNN(nn.Module):
    """Convolutions of several widths over each distinct word, max-pooled: ids ``[U, W]`` → ``[U, filters]``."""

    def __init__(self, config: CharsConfig, characters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(self._draw(characters, config.size), freeze=False, padding_idx=0)
        with torch.no_grad():
            self.embedding.weight[0] = 0
        share, rest = divmod(config.filters, len(config.widths))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.size, share + (i < rest), width, padding=width - 1)
            for i, width in enumerate(config.widths[: config.filters])
        )
        self.size = config.filters

    @staticmethod
    def _draw(rows: int, size: int) -> Tensor:
        bound = (3 / size) ** 0.5
        return torch.empty(rows, size).uniform_(-bound, bound)

    @torch.no_grad()
    def grow(self, characters: int) -> None:
        """Add rows for letters of new text."""
        weight = self.embedding.weight
        new = self._draw(characters - len(weight), weight.shape[1]).to(weight.device)
        if len(new):
            self.embedding = nn.Embedding.from_pretrained(torch.cat([weight, new]), freeze=False, padding_idx=0)

    def forward(self, chars: Tensor) -> Tensor:
        if double_backward_wanted():
            return self.convolve(self.embedding(chars), chars != 0)
        return self.scan(chars)[0]

    def scan(self, chars: Tensor) -> tuple[Tensor, Tensor]:
        """The convolutions by look-up: the product of each filter column with each letter is computed once.

        A batch has about a hundred letters but thousands of positions, so summing rows of a small table is less work
        than multiplying at every position.

        Returns:
            The output ``[U, F]``, and the last position of the window that each number comes from, ``[U, F]``.
            Position p of the padded word is letter p of the word itself.
        """
        filters = self.filters()
        span = filters.shape[-1]
        letters = pad(self.embedding.weight[1:], (0, 0, 1, 0))  # padding is zero and does not learn
        table = torch.einsum("cs,fsj->cjf", letters, filters).flatten(0, 1)  # [letters · span, F]
        windows = pad(chars, (span - 1, span - 1)).unfold(1, span, 1)  # [U, P, span]
        column = torch.arange(span, device=chars.device)
        y = embedding_bag((windows * span + column).flatten(0, 1), table, mode="sum")
        return self._largest(y.view(*windows.shape[:2], -1), chars != 0)

    def convolve(self, x: Tensor, mask: Tensor) -> Tensor:
        """As :meth:`forward`, from character vectors ``[U, W, size]``, which may have been perturbed."""
        filters = self.filters()
        y = conv1d((x * mask[..., None]).transpose(1, 2), filters, padding=filters.shape[-1] - 1)
        return self._largest(y.transpose(1, 2), mask)[0]

    def filters(self) -> Tensor:
        """Filters of all widths in one tensor, aligned at their last column: ``[F, size, span]``."""
        span = max(conv.kernel_size[0] for conv in self._convs())
        return torch.cat([pad(conv.weight, (span - conv.kernel_size[0], 0)) for conv in self._convs()])

    def _largest(self, y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Max-pooling over the windows of a word, ``[U, P, F]`` → ``[U, F]``, with bias and ReLU.

        Windows that touch no letter are left out, so that padding to a longer word in the batch changes nothing.
        """
        extra = torch.cat([y.new_full((conv.out_channels,), conv.kernel_size[0] - 1) for conv in self._convs()])
        reach = mask.sum(1)[:, None] + extra  # [U, F]: windows that touch a letter
        at = torch.arange(y.shape[1], device=y.device)[:, None]  # [P, 1]
        best, window = y.masked_fill(at >= reach[:, None], float("-inf")).max(1)
        bias = torch.cat([conv.bias for conv in self._convs() if conv.bias is not None])
        return torch.relu(best + bias), window

    def _convs(self) -> list[nn.Conv1d]:
        return [conv for conv in self.convolutions if isinstance(conv, nn.Conv1d)]
