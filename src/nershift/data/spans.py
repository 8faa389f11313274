"""The two immutable values that everything else builds on: a labelled span and a sentence of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from nershift.arguments import found
from nershift.errors import DataError


@dataclass(frozen=True, order=True, slots=True)
class Span:
    """Tokens ``start`` up to, not including, ``end`` carry an entity of type ``label``.

    Example:
        >>> Span(0, 2, "PER") < Span(3, 4, "LOC"), Span(0, 2, "PER", score=0.9) == Span(0, 2, "PER")
        (True, True)
    """

    start: int
    end: int
    label: str
    score: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens with sorted entity spans, which overlap only where the sentence is ``nested``.

    ``text`` and ``offsets`` (a half-open character range per token) are there when the sentence came from
    running text; ``place`` says where it was read (``file:line``) so that messages can point at it.

    Example:
        >>> s = Sentence.of("Ada Lovelace left London".split(), [(0, 2, "PER"), (3, 4, "LOC")])
        >>> [(s.mention(span), span.label) for span in s.spans]
        [('Ada Lovelace', 'PER'), ('London', 'LOC')]
    """

    tokens: tuple[str, ...]
    spans: tuple[Span, ...] = ()
    text: str | None = None
    offsets: tuple[tuple[int, int], ...] | None = None
    place: str = field(default="", compare=False)
    nested: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        before: Span | None = None
        for span in self.spans:
            if not 0 <= span.start < span.end <= len(self.tokens):
                raise DataError(
                    f"span {span.start}:{span.end} ({span.label}) lies outside a sentence of {len(self.tokens)} tokens",
                    place=self.place,
                    expected="0 <= start < end <= number of tokens",
                )
            if before is not None and (before >= span if self.nested else before.end > span.start):
                raise self._misplaced(span)
            before = span
        if self.offsets is not None and len(self.offsets) != len(self.tokens):
            raise DataError(f"{len(self.offsets)} offsets for {len(self.tokens)} tokens", place=self.place)

    def _misplaced(self, span: Span) -> DataError:
        name = f"span {span.start}:{span.end} ({span.label})"
        if self.nested:
            return DataError(f"{name} is not sorted or there twice", place=self.place, expected="each span once")
        return DataError(
            f"{name} overlaps the span before it",
            place=self.place,
            expected="flat spans, sorted by position",
            fix="keep one of the overlapping spans, or say that the sentence is nested",
        )

    @classmethod
    def of(
        cls,
        tokens: Iterable[str],
        spans: Iterable[Span | tuple[int, int, str]] = (),
        text: str | None = None,
        offsets: Iterable[tuple[int, int]] | None = None,
        place: str = "",
        nested: bool = False,
    ) -> Sentence:
        """Build a sentence from any iterables, sorting the spans."""
        if isinstance(tokens, str) or not isinstance(tokens, Iterable):
            raise DataError(found(tokens), place=place or "tokens", expected="a list of tokens", fix="text.split()")
        words, ranges = tuple(tokens), tuple(offsets) if offsets is not None else None
        try:
            ordered = tuple(sorted(s if isinstance(s, Span) else Span(*s) for s in spans))
            return cls(words, ordered, text, ranges, place, nested)
        except TypeError:
            expected = "spans, each (start, end, label) with whole numbers"
            raise DataError(found(spans), place=place or "spans", expected=expected) from None

    def __len__(self) -> int:
        return len(self.tokens)

    def mention(self, span: Span) -> str:
        """The words of a span: cut out of the text when there is one, else joined by spaces."""
        if self.text is not None and self.offsets is not None:
            return self.text[self.offsets[span.start][0] : self.offsets[span.end - 1][1]]
        return " ".join(self.tokens[span.start : span.end])

    def with_spans(self, spans: Iterable[Span]) -> Sentence:
        """The sentence with other spans; it becomes nested where these overlap."""
        ordered = tuple(sorted(spans))
        return replace(self, spans=ordered, nested=self.nested or overlapping(ordered))

    def with_entities(self, words: Callable[[Span], Sequence[str]]) -> Sentence:
        """The sentence with each entity replaced by ``words(span)``, from left to right; labels stay, text is dropped.

        Of entities that overlap, only those that lie inside all the others are replaced; the others move along.
        """
        edits = [(span, words(span)) for span in self.spans if self._innermost(span)]

        def moved(border: int) -> int:
            return border + sum(len(new) - (old.end - old.start) for old, new in edits if old.end <= border)

        tokens = list(self.tokens)
        for old, new in reversed(edits):
            tokens[old.start : old.end] = new
        spans = tuple(Span(moved(s.start), moved(s.end), s.label) for s in self.spans)
        return Sentence(tuple(tokens), spans, nested=self.nested)

    def _innermost(self, span: Span) -> bool:
        """Does every other span that shares a token with this one reach beyond it without a border inside it?"""
        if not self.nested:
            return True
        borders = span.start, span.end
        touching = (s for s in self.spans if s is not span and s.start < span.end and span.start < s.end)
        return all(s.start <= span.start and span.end <= s.end and (s.start, s.end) != borders for s in touching)

    def layers(self) -> list[Sentence]:
        """Flat sentences that together have all the spans, the longest spans first; a flat one is its own layer.

        Example:
            >>> s = Sentence.of("University of Leeds".split(), [(0, 3, "ORG"), (2, 3, "LOC")], nested=True)
            >>> [[span.label for span in layer.spans] for layer in s.layers()]
            [['ORG'], ['LOC']]
        """
        if not overlapping(self.spans):
            return [self]
        layers: list[list[Span]] = []
        for span in sorted(self.spans, key=lambda s: (s.start - s.end, s)):
            free = (row for row in layers if all(s.end <= span.start or span.end <= s.start for s in row))
            row = next(free, None)
            if row is None:
                layers.append(row := [])
            row.append(span)
        return [replace(self, spans=tuple(sorted(row)), nested=False) for row in layers]

    def to_text(self) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Text and token offsets; tokens are joined by single spaces when no text was kept."""
        if self.text is not None and self.offsets is not None:
            return self.text, self.offsets
        offsets, at = [], 0
        for token in self.tokens:
            offsets.append((at, at + len(token)))
            at += len(token) + 1
        return " ".join(self.tokens), tuple(offsets)


def overlapping(spans: Sequence[Span]) -> bool:
    """Do any two of these sorted spans share a token?"""
    return any(a.end > b.start for a, b in pairwise(spans))


def in_parts(sentence: Sentence, max_tokens: int) -> list[Sentence]:
    """The sentence in parts of at most ``max_tokens`` tokens, or a little more where an entity would be cut.

    Example:
        >>> [s.tokens for s in in_parts(Sentence.of("a b c d e".split(), [(1, 3, "X")]), 2)]
        [('a', 'b', 'c'), ('d', 'e')]
    """
    parts, start = list[Sentence](), 0
    while len(sentence) - start > max_tokens:
        end = start + max_tokens
        for span in sentence.spans:
            if span.start < end < span.end:
                end = span.end
        parts.append(_part(sentence, start, end))
        start = end
    return [*parts, _part(sentence, start, len(sentence))] if parts else [sentence]


def _part(sentence: Sentence, start: int, end: int) -> Sentence:
    """The tokens ``start`` to ``end``, which cut no span, without the running text."""
    spans = [replace(s, start=s.start - start, end=s.end - start) for s in sentence.spans if start <= s.start < end]
    return Sentence(sentence.tokens[start:end], tuple(spans), place=sentence.place, nested=sentence.nested)


def by_length(sentences: Sequence[Sentence], batch_size: int) -> Iterator[list[int]]:
    """Indices of non-empty sentences in batches of similar length."""
    order = sorted((i for i, s in enumerate(sentences) if len(s)), key=lambda i: len(sentences[i]))
    return (order[k : k + batch_size] for k in range(0, len(order), batch_size))
