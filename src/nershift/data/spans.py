"""The two immutable values everything else is made of: a labelled span and a sentence of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from nershift.errors import DataError


@dataclass(frozen=True, order=True, slots=True)
class Span:
    """Tokens ``start`` up to, not including, ``end`` carry an entity of type ``label``."""

    start: int
    end: int
    label: str
    score: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens with flat (non-overlapping, sorted) entity spans.

    ``text`` and ``offsets`` (a half-open character range a token) are there when the sentence came from
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

    def __post_init__(self) -> None:
        end = 0
        for span in self.spans:
            if not 0 <= span.start < span.end <= len(self.tokens):
                raise DataError(
                    f"span {span.start}:{span.end} ({span.label}) lies outside a sentence of {len(self.tokens)} tokens",
                    place=self.place,
                    expected="0 <= start < end <= number of tokens",
                )
            if span.start < end:
                raise DataError(
                    f"span {span.start}:{span.end} ({span.label}) overlaps the span before it",
                    place=self.place,
                    expected="flat spans, sorted by position",
                    fix="keep one of the overlapping spans",
                )
            end = span.end
        if self.offsets is not None and len(self.offsets) != len(self.tokens):
            raise DataError(f"{len(self.offsets)} offsets for {len(self.tokens)} tokens", place=self.place)

    @classmethod
    def of(
        cls,
        tokens: Iterable[str],
        spans: Iterable[Span | tuple[int, int, str]] = (),
        text: str | None = None,
        offsets: Iterable[tuple[int, int]] | None = None,
        place: str = "",
    ) -> Sentence:
        """Build a sentence from any iterables, sorting the spans."""
        made = sorted(s if isinstance(s, Span) else Span(*s) for s in spans)
        return cls(tuple(tokens), tuple(made), text, tuple(offsets) if offsets is not None else None, place)

    def __len__(self) -> int:
        return len(self.tokens)

    def mention(self, span: Span) -> str:
        """The words of a span: cut out of the text when there is one, else joined by spaces."""
        if self.text is not None and self.offsets is not None:
            return self.text[self.offsets[span.start][0] : self.offsets[span.end - 1][1]]
        return " ".join(self.tokens[span.start : span.end])

    def with_spans(self, spans: Iterable[Span]) -> Sentence:
        return replace(self, spans=tuple(sorted(spans)))

    def with_entities(self, words: Callable[[Span], Sequence[str]]) -> Sentence:
        """What ``words`` gives in place of each entity, from left to right, under the same labels; text is dropped."""
        tokens, spans, at = list[str](), list[Span](), 0
        for span in self.spans:
            tokens += self.tokens[at : span.start]
            begin = len(tokens)
            tokens += words(span)
            spans.append(Span(begin, len(tokens), span.label))
            at = span.end
        return Sentence((*tokens, *self.tokens[at:]), tuple(spans))

    def to_text(self) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Text and token offsets; tokens are joined by single spaces when no text was kept."""
        if self.text is not None and self.offsets is not None:
            return self.text, self.offsets
        offsets, at = [], 0
        for token in self.tokens:
            offsets.append((at, at + len(token)))
            at += len(token) + 1
        return " ".join(self.tokens), tuple(offsets)


def in_parts(sentence: Sentence, longest: int) -> list[Sentence]:
    """The sentence in parts of at most ``longest`` tokens, or a little more where an entity would be cut.

    Example:
        >>> [s.tokens for s in in_parts(Sentence.of("a b c d e".split(), [(1, 3, "X")]), 2)]
        [('a', 'b', 'c'), ('d', 'e')]
    """
    parts, start, spans = list[Sentence](), 0, list(sentence.spans)
    while len(sentence) - start > longest:
        inside = (s.end for s in spans if s.start < start + longest < s.end)
        end = next(inside, start + longest)
        parts.append(_part(sentence, start, end))
        start = end
    return [*parts, _part(sentence, start, len(sentence))] if parts else [sentence]


def _part(sentence: Sentence, start: int, end: int) -> Sentence:
    """The tokens ``start`` to ``end``, which cut no span, without the running text."""
    spans = [replace(s, start=s.start - start, end=s.end - start) for s in sentence.spans if start <= s.start < end]
    return Sentence(sentence.tokens[start:end], tuple(spans), place=sentence.place)


def by_length(sentences: Sequence[Sentence], batch_size: int) -> Iterator[list[int]]:
    """Indices of non-empty sentences in batches of like length."""
    order = sorted((i for i, s in enumerate(sentences) if len(s)), key=lambda i: len(sentences[i]))
    return (order[k : k + batch_size] for k in range(0, len(order), batch_size))
