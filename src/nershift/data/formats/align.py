"""From character spans to token spans: the one place where annotation meets tokens."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nershift.data.problems import Problem, Problems
from nershift.data.spans import Sentence, Span
from nershift.data.tokenizer import tokenize
from nershift.errors import DataError


class CharSpan(NamedTuple):
    """Characters ``start`` up to, not including, ``end``; ``place`` is where the annotation stands."""

    start: int
    end: int
    label: str
    score: float | None = None
    place: str = ""


def align(
    text: str,
    spans: Iterable[CharSpan],
    place: str,
    problems: Problems,
    offsets: Sequence[tuple[int, int]] | None = None,
) -> Sentence:
    """A sentence from a text with character spans; ``offsets`` are its tokens where the file has them.

    White space at the edges of a span is fine. Every other difference between spans and tokens is a
    problem: outside the text, without a token, with a border inside a token, or overlapping unless nested.
    """
    if offsets is None:
        offsets = tokenize(text)
    starts, ends = [a for a, _ in offsets], [b for _, b in offsets]
    aligned: list[tuple[Span, str]] = []
    for span in within(text, spans, place, problems):
        where = span.place or place
        first = bisect.bisect_right(ends, span.start)
        last = bisect.bisect_left(starts, span.end)  # one past the last token touched
        if first >= last:
            problems.add(_left_out("empty span", where, f"{_name(span)} covers no token", "at least one token"))
            continue
        if span.start > starts[first] or span.end < ends[last - 1]:
            grown = text[starts[first] : ends[last - 1]]
            problems.report(
                "misaligned span",
                where,
                f"{_name(span)} {text[span.start : span.end]!r} has a border inside a token",
                expected=f"borders between tokens, as around {grown!r}",
                fix="correct the offsets, give the tokens in the file, or read with repair to grow it",
                repair=f"grown to {grown!r}",
            )
        aligned.append((Span(first, last, span.label, span.score), where))
    tokens = tuple(text[a:b] for a, b in offsets)
    kept = _unique(aligned, problems) if problems.nested else _flat(aligned, problems)
    return Sentence(tokens, kept, text, tuple(offsets), place, problems.nested)


def within(text: str, spans: Iterable[CharSpan], place: str, problems: Problems) -> list[CharSpan]:
    """The spans that lie inside the text and are not empty."""
    good = []
    for span in spans:
        if span.start >= span.end:
            problems.add(
                _left_out("empty span", span.place or place, f"{_name(span)} is empty", "start smaller than end")
            )
        elif span.start < 0 or span.end > len(text):
            problems.add(
                _left_out(
                    "span outside text",
                    span.place or place,
                    f"{_name(span)} lies outside a text of {len(text)} characters",
                    f"0 <= start < end <= {len(text)}, counted in characters, not bytes",
                )
            )
        else:
            good.append(span)
    return good


def _unique(spans: Sequence[tuple[Span, str]], problems: Problems) -> tuple[Span, ...]:
    """Sorted spans that may overlap; of two equal ones the first stays."""
    kept: dict[Span, None] = {}
    for span, where in spans:
        if span in kept:
            problems.add(_repeated(span, where))
        kept.setdefault(span)
    return tuple(sorted(kept))


def _flat(spans: Sequence[tuple[Span, str]], problems: Problems) -> tuple[Span, ...]:
    """Sorted spans without overlap: of two that overlap the longer stays, of two equal ones the first."""
    kept: list[Span] = []
    for span, where in sorted(spans, key=lambda item: (item[0].start - item[0].end, item[0].start)):
        at = bisect.bisect_left(kept, span.end, key=lambda k: k.start) - 1  # last kept span that starts before its end
        if at < 0 or kept[at].end <= span.start:
            bisect.insort(kept, span)
            continue
        other = kept[at]
        if span == other:
            problems.add(_repeated(span, where))
            continue
        problems.report(
            "overlap",
            where,
            f"'{span.label}' on tokens {span.start}:{span.end} overlaps '{other.label}' on {other.start}:{other.end}",
            expected="flat spans",
            fix="read with --nested if entities may overlap; else keep one of the two, or read with repair to "
            "keep the longer one",
            repair=f"'{span.label}' on tokens {span.start}:{span.end} left out",
        )
    return tuple(kept)


def _repeated(span: Span, where: str) -> Problem:
    return Problem(
        "duplicate span",
        where,
        f"'{span.label}' is annotated twice on tokens {span.start}:{span.end}",
        expected="each span once",
        fix="remove one of the two",
        repair="kept once",
    )


def split_document(
    text: str,
    spans: Iterable[CharSpan],
    ranges: Sequence[tuple[int, int]],
    place: str,
    problems: Problems,
    *,
    split_hyphens: bool = False,
) -> list[Sentence]:
    """One sentence per character range, each with its spans; ranges that a span crosses are joined.

    ``place`` is the file; each sentence gets its line number. Line breaks inside a sentence become
    spaces.
    """
    rest = sorted(within(text, spans, place, problems), reverse=True)
    sentences: list[Sentence] = []
    line, counted = 1, 0
    at = 0
    while at < len(ranges):
        start, end = ranges[at]
        at += 1
        mine: list[CharSpan] = []
        while rest and rest[-1].start < end:
            mine.append(rest.pop())
            while mine[-1].end > end and at < len(ranges) and ranges[at][0] < mine[-1].end:
                end = ranges[at][1]
                at += 1
        line, counted = line + text.count("\n", counted, start), start
        piece = text[start:end].replace("\n", " ")
        moved = [s._replace(start=max(0, s.start - start), end=min(len(piece), s.end - start)) for s in mine]
        offsets = tokenize(piece, split_hyphens=split_hyphens)
        sentences.append(align(piece, moved, f"{place}:{line}", problems, offsets))
    for span in rest:
        problems.add(_left_out("empty span", span.place or place, f"{_name(span)} covers no token", "a sentence"))
    return sentences


def locate_tokens(text: str, tokens: Sequence[str]) -> list[tuple[int, int]] | None:
    """Where each token stands in the text, in order; ``None`` when they do not fit."""
    offsets, at = [], 0
    for token in tokens:
        start = text.find(token, at)
        if start < 0 or not token:
            return None
        at = start + len(token)
        offsets.append((start, at))
    return offsets


def text_and_offsets(sentence: Sentence) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Text and token offsets for a writer, checked to agree with the tokens."""
    text, offsets = sentence.to_text()
    for token, (start, end) in zip(sentence.tokens, offsets, strict=True):
        if text[start:end] != token:
            raise DataError(
                f"token {token!r} is not what the text has at {start}:{end} ({text[start:end]!r})",
                place=sentence.place,
                expected="offsets that cut the tokens out of the text",
                fix="drop text and offsets from the sentence to write its tokens joined by spaces",
            )
    return text, offsets


def char_spans(sentence: Sentence, offsets: Sequence[tuple[int, int]]) -> list[CharSpan]:
    return [CharSpan(offsets[s.start][0], offsets[s.end - 1][1], s.label, s.score) for s in sentence.spans]


def _name(span: CharSpan) -> str:
    return f"span {span.start}:{span.end} ({span.label})"


def _left_out(kind: str, place: str, found: str, expected: str) -> Problem:
    return Problem(
        kind,
        place,
        found,
        expected,
        fix="correct or remove the span; reading with repair leaves it out",
        repair="left out",
    )
