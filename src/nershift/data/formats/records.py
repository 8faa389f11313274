"""JSON records: what the JSON-based formats share (lines or one list, ids, the shapes of a span)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nershift.data.formats.align import CharSpan
from nershift.data.formats.files import lines_of, read_text, report_returns
from nershift.data.problems import Problem, Problems
from nershift.parsing import parse_json
from nershift.storage import write_text

Record = dict[str, Any]

# Line separators that other programs take for a line end; JSON may hold them escaped.
_SEPARATORS = {ord(c): f"\\u{ord(c):04x}" for c in "\x85\u2028\u2029"}
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_START, _END = ("start", "start_offset"), ("end", "end_offset")


def read_records(path: Path, problems: Problems) -> Iterator[tuple[str, Record]]:
    """Each JSON object with its place; a file is JSON lines or one list (with places ``file[number]``)."""
    text = read_text(path, problems)
    seen: dict[str, str] = {}
    for place, record in _parse(path, text, problems):
        if not isinstance(record, dict):
            problems.add(_bad_record(place, f"a JSON {type(record).__name__} in place of a record", "a JSON object"))
            continue
        if record.get("id") is not None:
            key = _quoted(record["id"])
            if key in seen:
                problems.report(
                    "duplicate id",
                    place,
                    f"id {key} was already used at {seen[key]}",
                    expected="each id once",
                    fix="remove the repeated record if it is the same text",
                    repair="both records kept",
                )
            seen.setdefault(key, place)
        yield place, record


def _parse(path: Path, text: str, problems: Problems) -> Iterator[tuple[str, Any]]:
    if text.lstrip().startswith("["):
        try:
            listed = _whole_letters(parse_json(text), text, str(path), problems)
            yield from ((f"{path}[{i}]", record) for i, record in enumerate(listed))
            return
        except ValueError as error:
            if path.name.removesuffix(".gz").endswith(".json"):
                line = getattr(error, "lineno", 1)
                problems.add(_bad_record(f"{path}:{line}", f"not JSON: {error}", "one JSON list"))
                return
    for number, line in enumerate(report_returns(lines_of(text), path, problems), 1):
        if not line.strip():
            continue
        try:
            record = _whole_letters(parse_json(line), line, f"{path}:{number}", problems)
        except ValueError as error:
            problems.add(_bad_record(f"{path}:{number}", f"not JSON: {error}", "one JSON object per line"))
            continue
        yield f"{path}:{number}", record


def _whole_letters(record: Any, source: str, place: str, problems: Problems) -> Any:
    """The record, without halves of characters (``\\ud83d`` alone), which are no text."""
    if _HALF.search(source) is None:
        return record
    try:
        text = json.dumps(record, ensure_ascii=False)
    except RecursionError:
        raise ValueError("lists and objects are nested too deeply") from None
    good = text.encode("utf-8", "replace").decode()
    if good == text:
        return record  # both halves are there
    problems.report(
        "encoding",
        place,
        "half a character: an escape such as \\ud83d without its second part",
        expected="text that can be written as UTF-8",
        fix="correct how the file was exported",
        repair="read as ?",
    )
    return json.loads(good)


def first_record(head: str) -> Record | None:
    """The first record of a file's first characters: empty where it is broken, ``None`` where there is no JSON."""
    if head.lstrip()[:1] not in ("[", "{"):
        return None
    with suppress(ValueError, RecursionError):  # broken JSON is for the reader to report
        record: Record = json.JSONDecoder().raw_decode(head, head.index("{"))[0]
        return record
    return {}


def text_of(record: Record, place: str, problems: Problems, key: str = "text") -> str | None:
    """The text of a record, or ``None`` after a problem."""
    text = record.get(key)
    if isinstance(text, str):
        return text
    shown = "no" if key not in record else f"{type(text).__name__} as"
    problems.add(_bad_record(place, f"the record has {shown} '{key}'", f"'{key}': a string"))
    return None


def char_span(item: Any, place: str, problems: Problems, *, label_first: bool = False) -> CharSpan | None:
    """One span: ``{"start", "end", "label"}``, ``[start, end, label]`` or ``[label, start, end]``."""
    score: Any = None
    start: Any = None
    end: Any = None
    label: Any = None
    if isinstance(item, Mapping):
        start = next((item[k] for k in _START if k in item), None)
        end = next((item[k] for k in _END if k in item), None)
        label, score = item.get("label"), item.get("score")
    elif isinstance(item, list) and len(item) >= 3:
        label, start, end = item[:3] if label_first else (item[2], *item[:2])
        score = item[3] if len(item) > 3 else None
    if type(start) is int and type(end) is int and isinstance(label, str) and label:
        return CharSpan(start, end, label, _score(score), place)
    problems.report(
        "bad span",
        place,
        f"{_quoted(item)} is not a span",
        expected="whole numbers for start and end and a name for the label",
        fix="correct the record; reading with repair leaves the span out",
        repair="left out",
    )
    return None


def _score(value: Any) -> float | None:
    """The score of a span; what cannot be a probability is none."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None


def _quoted(value: Any) -> str:
    """A value as JSON, for comparing and for messages."""
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    except RecursionError:
        return "a value that is nested too deeply"


def char_spans_of(items: Any, place: str, problems: Problems, *, label_first: bool = False) -> list[CharSpan]:
    """All spans of a list; ``None`` is an empty list."""
    if items is None:
        return []
    if not isinstance(items, list):
        problems.add(_bad_record(place, f"{type(items).__name__} in place of the spans", "a list of spans"))
        return []
    spans = (char_span(item, place, problems, label_first=label_first) for item in items)
    return [span for span in spans if span is not None]


def write_records(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object per line."""
    lines = (json.dumps(r, ensure_ascii=False).translate(_SEPARATORS) + "\n" for r in records)
    write_text(path, "".join(lines))


def _bad_record(place: str, found: str, expected: str) -> Problem:
    return Problem(
        "bad record",
        place,
        found,
        expected,
        fix="correct the record; reading with repair leaves it out",
        repair="left out",
    )
