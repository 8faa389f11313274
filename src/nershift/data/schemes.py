"""Tag schemes as tables: which tag may follow which, and how tags become spans and back.

A tag is ``O`` or ``PREFIX-TYPE``. BILOU is BIOES with other letters (L = E, U = S), so one table serves both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from nershift.data.spans import Span, overlapping
from nershift.errors import DataError

Scheme = Literal["BIO", "IOB1", "BIOES", "BILOU"]
SCHEMES: tuple[Scheme, ...] = ("BIO", "IOB1", "BIOES", "BILOU")

PREFIXES: dict[Scheme, str] = {"BIO": "BI", "IOB1": "BI", "BIOES": "BIES", "BILOU": "BILU"}
_TO_BIOES = {"L": "E", "U": "S"}
_TO_BILOU = {"E": "L", "S": "U"}
# In BIOES an entity is open after B or I and closed after E, S or O.
_OPENS = {"B": True, "I": True, "E": False, "S": False, "O": False}
_STARTS = {"B": True, "S": True, "O": True, "I": False, "E": False}


def split_tag(tag: str) -> tuple[str, str]:
    """``'B-PER'`` → ``('B', 'PER')``; ``'O'`` → ``('O', '')``."""
    prefix, _, label = tag.partition("-")
    return prefix, label


def legal(before: str, after: str, scheme: Scheme) -> bool:
    """May ``after`` follow ``before``? The empty string stands for the edge of the sentence."""
    (p, p_type), (q, q_type) = split_tag(before or "O"), split_tag(after or "O")
    if scheme == "IOB1":
        return q != "B" or (p != "O" and p_type == q_type)
    if scheme == "BIO":
        return q != "I" or (p != "O" and p_type == q_type)
    p, q = _TO_BIOES.get(p, p), _TO_BIOES.get(q, q)
    if _OPENS[p]:
        return not _STARTS[q] and p_type == q_type
    return _STARTS[q]


def spans_to_tags(spans: Sequence[Span], length: int, scheme: Scheme) -> list[str]:
    """Write flat spans as one tag per token."""
    if overlapping(spans):
        raise DataError(
            "entities overlap, which one tag per token cannot hold",
            expected="flat spans",
            fix="use a head for overlapping entities, or a format with spans such as jsonl",
        )
    tags = ["O"] * length
    for span in spans:
        inside = range(span.start, span.end)
        if scheme in ("BIO", "IOB1"):
            prefixes = ["I"] * len(inside)
            touching = span.start > 0 and split_tag(tags[span.start - 1])[1] == span.label
            if scheme == "BIO" or touching:
                prefixes[0] = "B"
        elif len(inside) == 1:
            prefixes = ["S"]
        else:
            prefixes = ["B", *["I"] * (len(inside) - 2), "E"]
        if scheme == "BILOU":
            prefixes = [_TO_BILOU.get(p, p) for p in prefixes]
        for i, prefix in zip(inside, prefixes, strict=True):
            tags[i] = f"{prefix}-{span.label}"
    return tags


def tags_to_spans(tags: Sequence[str]) -> list[Span]:
    """Read spans from tags of any scheme as conlleval does; illegal sequences are closed, never dropped.

    A chunk starts at B, S, U, at any tag of another type, and at I, E or L after an end or an ``O``.
    """
    spans: list[Span] = []
    start, open_type = 0, ""
    before, before_type = "O", ""
    for i, tag in enumerate([*tags, "O"]):
        prefix, label = split_tag(tag)
        prefix = _TO_BIOES.get(prefix, prefix)
        starts = prefix != "O" and (prefix in "BS" or before in "OES" or label != before_type)
        if open_type and (prefix == "O" or starts):
            spans.append(Span(start, i, open_type))
            open_type = ""
        if starts:
            start, open_type = i, label
        before, before_type = prefix, label
    return spans


def first_illegal(tags: Sequence[str], scheme: Scheme) -> int | None:
    """Index of the first tag that breaks the scheme (``len(tags)`` when the sentence ends too early)."""
    before = ""
    for i, tag in enumerate([*tags, ""]):
        if not legal(before, tag, scheme):
            return i
        before = tag
    return None
