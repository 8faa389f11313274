"""Sentences longer than a tagger reads at once: cut between words with overlap, tagged in parts, and joined again.

So the memory and the time of a token do not depend on the length of its sentence. A text may be one sentence of any
length: a table without stops, a language whose stops the tokenizer does not know, or an attack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

from nershift.data.spans import Sentence, Span, overlapping

LONGEST = 512  # tokens of a part
OVERLAP = 64  # tokens that neighbouring parts share; the border between what they decide lies in the middle
T = TypeVar("T")


@dataclass(frozen=True)
class _Part:
    """Tokens from ``start`` on of a sentence; what it finds counts where it begins in ``first`` to ``last``."""

    start: int
    first: int
    last: int


class Parts:
    """Sentences as they are tagged: those that are too long in several parts.

    Example:
        >>> whole = Sentence.of("a b c d e f g h i j".split())
        >>> parts = Parts([whole], longest=6, overlap=4)
        >>> [" ".join(part.tokens) for part in parts.sentences]
        ['a b c d e f', 'c d e f g h', 'e f g h i j']
        >>> parts.join([[Span(3, 6, "X")], [Span(1, 4, "X")], [Span(3, 4, "Y")]])  # d e f; again; h
        [[Span(start=3, end=6, label='X', score=None), Span(start=7, end=8, label='Y', score=None)]]
    """

    def __init__(self, sentences: Sequence[Sentence], longest: int = LONGEST, overlap: int = OVERLAP) -> None:
        self._whole = sentences
        self._parts = [_cut(len(s), longest, overlap) for s in sentences]
        self.sentences = [
            Sentence(s.tokens[part.start : part.start + longest]) if len(parts) > 1 else s
            for s, parts in zip(sentences, self._parts, strict=True)
            for part in parts
        ]

    def group(self, rows: Iterable[T]) -> list[list[T]]:
        """What belongs to the parts, by sentence."""
        left = iter(rows)
        return [[next(left) for _ in parts] for parts in self._parts]

    def join(self, rows: Iterable[Sequence[Span]]) -> list[list[Span]]:
        """The spans of each sentence from those of its parts."""
        return [
            list(found[0]) if len(parts) == 1 else _joined(parts, found)
            for parts, found in zip(self._parts, self.group(rows), strict=True)
        ]

    def with_spans(self, tagged: Sequence[Sentence]) -> list[Sentence]:
        """The sentences from their tagged parts."""
        if len(tagged) == len(self._whole):
            return list(tagged)
        return [s.with_spans(row) for s, row in zip(self._whole, self.join(t.spans for t in tagged), strict=True)]


def tag_in_parts(
    sentences: Sequence[Sentence], tag: Callable[[Sequence[Sentence]], Sequence[Sentence]]
) -> list[Sentence]:
    """What ``tag`` says of the sentences, where it gets none that is too long."""
    parts = Parts(sentences)
    return parts.with_spans(tag(parts.sentences))


def _cut(length: int, longest: int, overlap: int) -> list[_Part]:
    if length <= longest:
        return [_Part(0, 0, length)]
    starts = [*range(0, length - longest, longest - overlap), length - longest]
    borders = [0, *((a + longest + b) // 2 for a, b in pairwise(starts)), length]
    return [_Part(start, *border) for start, border in zip(starts, pairwise(borders), strict=True)]


def _joined(parts: Sequence[_Part], rows: Sequence[Sequence[Span]]) -> list[Span]:
    """A span counts where it begins. One that reaches over the border is not contradicted by the next part."""
    nested = any(overlapping(sorted(row)) for row in rows)
    kept: list[Span] = []
    end = 0  # of what is kept
    for part, row in zip(parts, rows, strict=True):
        before = end
        for span in sorted(row):
            moved = replace(span, start=part.start + span.start, end=part.start + span.end)
            if part.first <= moved.start < part.last and (nested or moved.start >= before):
                kept.append(moved)
                end = max(end, moved.end)
    return kept
