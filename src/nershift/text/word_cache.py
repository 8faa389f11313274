"""Words as numbers: each distinct word form is looked up once and then known by its number."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

CACHE_BYTES = 64 << 20  # that a tagger keeps of word forms between batches
_ENTRY = 130  # bytes of a form in the dictionary and its number
PAD, UNKNOWN = "<pad>", "<unknown>"
Rule = Literal["exact", "lower", "digits"]
_DIGIT = re.compile(r"\d")


def without_digits(word: str) -> str:
    """Every digit as 0: ``1996-08-28`` and ``2001-11-02`` are one word."""
    return _DIGIT.sub("0", word)


def lookup_forms(word: str) -> tuple[tuple[str, Rule], ...]:
    """The forms under which a word is looked up, in order, each with its rule.

    Example:
        >>> [form for form, _ in lookup_forms("BA2490")]
        ['BA2490', 'ba2490', 'BA0000', 'ba0000']
    """
    zeros = without_digits(word)
    return ((word, "exact"), (word.lower(), "lower"), (zeros, "digits"), (zeros.lower(), "digits"))


class Vocabulary:
    """Words with numbers; 0 is padding, 1 the unknown word.

    Example:
        >>> v = Vocabulary(["rome", "0000"])
        >>> v.find("Rome"), v.find("1999"), v.find("Oslo")
        (2, 3, 1)
    """

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.words: list[str] = [PAD, UNKNOWN]
        self.index: dict[str, int] = {PAD: 0, UNKNOWN: 1}
        self.extend(words)

    @classmethod
    def letters(cls, words: Iterable[str]) -> Vocabulary:
        """The letters of some words."""
        return cls(sorted({letter for word in words for letter in word}))

    def __len__(self) -> int:
        return len(self.words)

    def extend(self, words: Iterable[str]) -> None:
        for word in words:
            if word not in self.index:
                self.index[word] = len(self.words)
                self.words.append(word)

    def find(self, word: str) -> int:
        for form, _ in lookup_forms(word):
            if form in self.index:
                return self.index[form]
        return 1


@dataclass(frozen=True)
class Rounding:
    """Fewer batch shapes, so that a step recorded for one shape can often be replayed.

    Each axis of a batch is padded to ``least``, or twice, four times, … as much.

    Padding changes no state and no gradient. Dropout draws over a wider tensor, so it drops other units.

    Example:
        >>> Rounding.up(5, 8), Rounding.up(17, 8)
        (8, 32)
    """

    length: int  # tokens of a sentence
    forms: int  # distinct words
    letters: int  # of a word
    pieces: int = 16  # sub-words of a window

    @staticmethod
    def up(count: int, least: int) -> int:
        while least < count:
            least *= 2
        return least


class WordCache:
    """Distinct word forms seen so far, with the vocabulary row and the characters of each.

    It grows through :meth:`numbers` only; whoever owns it makes a new one when it takes more than :data:`CACHE_BYTES`.
    """

    def __init__(self, vocabulary: Vocabulary, characters: Vocabulary, max_length: int) -> None:
        self.vocabulary, self.characters, self.max_length = vocabulary, characters, max_length
        self.clear()

    def clear(self) -> None:
        self._number: dict[str, int] = {}
        self._rows = np.zeros(1024, dtype=np.int64)
        self._chars = np.zeros((1024, self.max_length), dtype=np.int64)
        self._lengths = np.zeros(1024, dtype=np.int64)
        self._spelled = 0  # bytes of the forms themselves
        self.numbers([""])  # form 0 is padding
        self._rows[0] = self._chars[0] = 0

    def __len__(self) -> int:
        return len(self._number)

    @property
    def bytes(self) -> int:
        """The memory that it takes: forms may be few and long."""
        return self._rows.nbytes + self._chars.nbytes + self._lengths.nbytes + self._spelled

    def numbers(self, tokens: Sequence[str]) -> list[int]:
        """The number of each token; new forms are added."""
        known = self._number
        out = []
        for token in tokens:
            number = known.get(token)
            if number is None:
                number = known[token] = len(known)
                self._add(number, token)
            out.append(number)
        return out

    def _add(self, number: int, token: str) -> None:
        if number == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._chars = np.concatenate([self._chars, np.zeros_like(self._chars)])
            self._lengths = np.concatenate([self._lengths, np.zeros_like(self._lengths)])
        self._spelled += sys.getsizeof(token) + _ENTRY
        self._rows[number] = self.vocabulary.find(token)
        if len(token) > self.max_length:
            tail = self.max_length // 2
            token = token[: self.max_length - tail] + token[len(token) - tail :]
        spelled = [self.characters.index.get(c, 1) for c in token] or [1]
        self._chars[number, : len(spelled)] = spelled
        self._lengths[number] = len(spelled)

    def look_up(self, numbers: np.ndarray, rounding: Rounding | None = None) -> tuple[Tensor, Tensor]:
        """``rows [N]`` and ``characters [N, W]`` (0 = padding) of these forms, padded to ``rounding``."""
        import torch  # here, so that taggers that run without torch can use the rest

        rows, chars = self.arrays(numbers)
        if rounding is not None:
            more = rounding.up(len(rows), rounding.forms) - len(rows)
            letters = min(rounding.up(chars.shape[1], rounding.letters), self.max_length)
            rows, chars = np.pad(rows, (0, more)), np.pad(chars, ((0, more), (0, letters - chars.shape[1])))
        return torch.from_numpy(rows), torch.from_numpy(chars)

    def arrays(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`look_up` as arrays."""
        width = int(self._lengths[numbers].max())
        return self._rows[numbers], self._chars[numbers, :width]
