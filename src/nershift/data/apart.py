"""Unlabelled text without the sentences that a tagger will be scored on."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import overload

import numpy as np

from nershift.data.spans import Sentence


def normalised_text(sentence: Sentence) -> str:
    """Equal for sentences that differ only in case, spacing, punctuation and the form of characters.

    Example:
        >>> normalised_text(Sentence.of(["It", "'s", "Ｌeeds", "!"])) == normalised_text(Sentence.of(["Its", "leeds"]))
        True
    """
    text = unicodedata.normalize("NFKC", "".join(sentence.tokens)).casefold()
    return "".join(c for c in text if c.isalnum())


def fingerprints(sentences: Iterable[Sentence]) -> frozenset[str]:
    """The normalised text of every sentence that has a letter or a digit."""
    return frozenset(text for s in sentences if (text := normalised_text(s)))


class Without(Sequence[Sentence]):
    """A text without some of its sentences. It is read once to find them, and not copied.

    Args:
        text: in memory or on disk.
        scored: :func:`fingerprints` of the sentences to leave out.
    """

    def __init__(self, text: Sequence[Sentence], scored: Collection[str]) -> None:
        self.text = text
        self.removed = np.array([i for i, s in enumerate(text) if normalised_text(s) in scored], dtype=np.int64)
        self._before = self.removed - np.arange(len(self.removed))  # how many are kept before each removed one

    def __len__(self) -> int:
        return len(self.text) - len(self.removed)

    def _place(self, index: int) -> int:
        """Where the text has what is sentence ``index`` here."""
        return index + int(np.searchsorted(self._before, index, side="right"))

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sentence]: ...
    def __getitem__(self, index: int | slice) -> Sentence | list[Sentence]:
        if isinstance(index, int):
            return self.text[self._place(range(len(self))[index])]
        places = range(len(self))[index]
        if places.step != 1 or not len(places):
            return [self[i] for i in places]
        first, last = self._place(places[0]), self._place(places[-1])
        gone = set(self.removed[(self.removed >= first) & (self.removed <= last)].tolist())
        return [s for i, s in enumerate(self.text[first : last + 1], first) if i not in gone]

    def __iter__(self) -> Iterator[Sentence]:
        gone = set(self.removed.tolist())
        return (s for i, s in enumerate(self.text) if i not in gone)


def without(text: Sequence[Sentence], scored: Collection[str]) -> Sequence[Sentence]:
    """The text without the sentences whose normalised text is among ``scored``; itself if it has none of them."""
    if not scored:
        return text
    kept = Without(text, scored)
    return kept if len(kept.removed) else text
