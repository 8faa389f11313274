"""The words a language model predicts: the most frequent ones of several texts, counted in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nershift.data.spans import Sentence
from nershift.text.word_cache import without_digits

UNKNOWN, BOUNDARY = 0, 1  # ids of a word outside the vocabulary, and of what lies beyond a sentence


class WordCounts:
    """Counts of words, digits as 0. Beyond ``limit`` distinct words, the rarest are dropped.

    A word that was dropped and returns is counted too low, by at most the count that was dropped: frequent words are
    not affected.

    Example:
        >>> WordCounts().add(Sentence.of(["in", "1998", "and", "2003"])).words
        Counter({'0000': 2, 'in': 1, 'and': 1})
    """

    def __init__(self, limit: int = 1_000_000) -> None:
        self.limit = limit
        self.words: Counter[str] = Counter()
        self.sentences = self.tokens = 0

    def add(self, sentence: Sentence) -> WordCounts:
        self.sentences += 1
        self.tokens += len(sentence)
        self.words.update(t if t.isalpha() else without_digits(t) for t in sentence.tokens)
        least = 0
        while len(self.words) > (self.limit // 2 if least else self.limit):
            least += 1
            self.words = Counter({w: n for w, n in self.words.items() if n > least})
        return self


class OutputWords:
    """A vocabulary with the relative frequency of each word; ids 0 and 1 are the unknown word and the boundary.

    ``frequencies [V]`` is the mean over the texts, so that a small domain counts as much as a large one.
    """

    def __init__(self, words: Sequence[str], frequencies: np.ndarray) -> None:
        self.words, self.frequencies = list(words), frequencies
        self._ids = {word: i for i, word in enumerate(self.words, 2)}

    def __len__(self) -> int:
        return len(self.frequencies)

    @classmethod
    def of(cls, texts: Mapping[str, Iterable[Sentence]], size: int = 50_000, min_count: int = 1) -> OutputWords:
        """The ``size`` most frequent words that some text has at least ``min_count`` times."""
        shares: dict[str, float] = {}
        boundary, unknown = 0.0, 0.0
        for text in texts.values():
            counts = WordCounts(limit=max(20 * size, 100_000))
            for sentence in text:
                counts.add(sentence)
            total = counts.tokens + counts.sentences  # each sentence predicts one boundary in either direction
            boundary += counts.sentences / total
            frequent = {word: n for word, n in counts.words.items() if n >= min_count}
            unknown += (counts.tokens - sum(frequent.values())) / total
            for word, n in frequent.items():
                shares[word] = shares.get(word, 0.0) + n / total
        ranked = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
        unknown += sum(share for _, share in ranked[size:])
        known = [share for _, share in ranked[:size]]
        # The unknown word may not occur in these texts, but no probability is zero.
        frequencies = np.array([max(unknown, 1e-6), boundary, *known]) / len(texts)
        return cls([word for word, _ in ranked[:size]], frequencies / frequencies.sum())

    def ids(self, tokens: Sequence[str]) -> np.ndarray:
        """Example:

        >>> OutputWords(["rome", "0000"], np.ones(4) / 4).ids(["1998", "Oslo", "rome"])
        array([3, 0, 2])
        """
        known = self._ids
        return np.array([known.get(t) or known.get(without_digits(t), UNKNOWN) for t in tokens], dtype=np.int64)
