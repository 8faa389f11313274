"""JSON lines: ``{"text": …, "spans": [{"start", "end", "label"}]}`` with character offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nershift.data.formats.align import align, char_spans, locate_tokens, text_and_offsets
from nershift.data.formats.base import FORMATS, Format
from nershift.data.formats.records import Record, char_spans_of, first_record, read_records, text_of, write_records
from nershift.data.formats.tagged import Block, sentences_from_tags
from nershift.data.problems import Problems
from nershift.data.spans import Sentence

_SPAN_KEYS = ("spans", "entities", "label", "labels")
_TAG_KEYS = ("ner_tags", "tags", "labels")


def read(path: Path, problems: Problems) -> list[Sentence]:
    """Read records with character spans, or with ``tokens`` and string ``tags``.

    Spans may also be ``[start, end, label]`` and stand under ``entities``, ``label`` or ``labels``.
    ``tokens``, where given, are ``[start, end]`` pairs, objects with ``start`` and ``end``, or strings found
    in the text in this order; else the text is tokenised.
    """
    items: list[Sentence | Block] = []
    for place, record in read_records(path, problems):
        if "text" not in record and isinstance(record.get("tokens"), list):
            block = _tagged(record, place, problems)
            if block is not None:
                items.append(block)
            continue
        text = text_of(record, place, problems)
        if text is None:
            continue
        spans = char_spans_of(_only(record, place, problems), place, problems)
        offsets = token_offsets(record.get("tokens"), text, place, problems)
        items.append(align(text, spans, place, problems, offsets))
    blocks = [item for item in items if isinstance(item, Block)]
    tagged = iter(sentences_from_tags(blocks, str(path), problems))
    return [next(tagged) if isinstance(item, Block) else item for item in items]


def _only(record: Record, place: str, problems: Problems) -> Any:
    """The spans under whichever one key holds them."""
    present = [key for key in _SPAN_KEYS if record.get(key) is not None]
    if len(present) > 1:
        problems.report(
            "ambiguous record",
            place,
            f"spans could be under {' or '.join(repr(key) for key in present)}",
            expected="'spans' alone",
            fix="keep one of the keys",
            repair=f"read from '{present[0]}'",
        )
    return record[present[0]] if present else None


def token_offsets(tokens: Any, text: str, place: str, problems: Problems) -> list[tuple[int, int]] | None:
    """Token ranges as the record gives them; ``None`` when it gives none or they do not fit the text."""
    if tokens is None:
        return None
    if isinstance(tokens, list) and all(isinstance(t, str) for t in tokens):
        offsets = locate_tokens(text, tokens)
    else:
        offsets = _pairs(tokens, text)
    if offsets is None:
        problems.report(
            "bad tokens",
            place,
            "the tokens do not fit the text",
            expected="tokens inside the text, in order, without overlap",
            fix="correct the tokens or omit them",
            repair="text tokenised again",
        )
    return offsets


def _pairs(tokens: Any, text: str) -> list[tuple[int, int]] | None:
    offsets: list[tuple[int, int]] = []
    at = 0
    for token in tokens if isinstance(tokens, list) else [None]:
        pair = [token.get("start"), token.get("end")] if isinstance(token, Mapping) else token
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(x) is int for x in pair)):
            return None
        start, end = pair
        if not at <= start < end <= len(text):
            return None
        offsets.append((start, end))
        at = end
    return offsets


def _tagged(record: Record, place: str, problems: Problems) -> Block | None:
    tokens = record["tokens"]
    tags = next((record[key] for key in _TAG_KEYS if isinstance(record.get(key), list)), None)
    words = all(isinstance(t, str) and t for t in tokens)
    if tokens and words and tags and len(tags) == len(tokens) and all(isinstance(t, str) for t in tags):
        line = int(place.rpartition(":")[2]) if place.rpartition(":")[2].isdigit() else 0
        return Block(list(tokens), list(tags), [line] * len(tokens))
    problems.report(
        "bad record",
        place,
        "the record has neither a text nor tokens with as many tags by name",
        expected="'text' with 'spans', or 'tokens' with 'tags' such as B-PER",
        fix="write tag names in place of numbers, one for each token",
        repair="left out",
    )
    return None


def write(path: Path, sentences: Iterable[Sentence]) -> None:
    """Write text, token offsets and spans; reading gives the same tokens and spans back."""
    write_records(path, (_record(sentence) for sentence in sentences))


def _record(sentence: Sentence) -> dict[str, Any]:
    text, offsets = text_and_offsets(sentence)
    spans: list[dict[str, Any]] = []
    for span in char_spans(sentence, offsets):
        spans.append({"start": span.start, "end": span.end, "label": span.label})
        if span.score is not None:
            spans[-1]["score"] = span.score
    return {"text": text, "tokens": [list(pair) for pair in offsets], "spans": spans}


def matches(path: Path, head: str) -> float:
    """Any JSON record; formats that have records of their own are surer of these."""
    record = first_record(head)
    return 0.0 if record is None else 0.6 if record else 0.3


FORMATS.register("jsonl")(Format((".jsonl", ".ndjson"), read, write, matches, nested=True))
