"""``predictions.jsonl``: what a run predicted on which gold, one sentence per line.

Each line is one JSON object::

    {"tokens": ["Ada", "left"], "gold": [[0, 1, "PER"]], "pred": [[0, 1, "PER", 0.98]]}

Spans are half-open token ranges. The score of a predicted span may be ``null`` or left out. Spans may overlap in a
line with ``"nested": true``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nershift.data.spans import Sentence, Span
from nershift.errors import DataError
from nershift.evaluation.metrics import Predicted, paired
from nershift.parsing import parse_json
from nershift.storage import write_bytes

_SHAPE = '{"tokens": [...], "gold": [[start, end, label], ...], "pred": [[start, end, label, score], ...]}'


def write_predictions(path: str | Path, gold: Sequence[Sentence], pred: Predicted) -> None:
    """Write gold and predicted spans together; the file appears whole or not at all."""
    lines = []
    for right, guess in paired(gold, pred):
        row: dict[str, Any] = {
            "tokens": list(right.tokens),
            "gold": [[s.start, s.end, s.label] for s in right.spans],
            "pred": [[s.start, s.end, s.label, s.score] for s in guess.spans],
        }
        if right.nested or guess.nested:
            row["nested"] = True
        try:
            lines.append(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
        except ValueError:
            raise DataError(
                f"a span of sentence {len(lines) + 1} has a score that is not a finite number",
                place=right.place,
                expected="scores between 0 and 1, or None",
            ) from None
    # A lone surrogate cannot be UTF-8; written as a backslash escape it is still the same JSON string.
    write_bytes(Path(path), "".join(lines).encode("utf-8", "backslashreplace"))


def read_predictions(path: str | Path) -> tuple[list[Sentence], list[Sentence]]:
    """Read gold and predicted sentences (two lists of equal length over the same tokens).

    Raises:
        DataError: The file is missing, or a line (named in the message) does not have the shape above.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as problem:
        raise DataError(
            f"cannot be read: {problem.strerror}", place=str(path), expected="a predictions.jsonl file"
        ) from None
    gold: list[Sentence] = []
    pred: list[Sentence] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        row = _parse(line, place)
        tokens = tuple(row["tokens"])
        for side, key in ((gold, "gold"), (pred, "pred")):
            side.append(Sentence.of(tokens, _spans(row, key, place), place=place, nested=row.get("nested") is True))
    if not gold:
        raise DataError("no predictions in the file", place=str(path), expected=f"lines like {_SHAPE}")
    return gold, pred


def _parse(line: bytes, place: str) -> dict[str, Any]:
    try:
        row = parse_json(line.decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        raise _bad(place, f"byte {problem.start + 1} of the line is not UTF-8") from None
    except ValueError as problem:
        raise _bad(place, f"not JSON: {problem}") from None
    if not isinstance(row, dict):
        raise _bad(place, f"a JSON {type(row).__name__}, not an object")
    for key in ("tokens", "gold", "pred"):
        if not isinstance(row.get(key), list):
            raise _bad(place, f"'{key}' is not a list" if key in row else f"no '{key}'")
    if not all(isinstance(token, str) for token in row["tokens"]):
        raise _bad(place, "a token that is not a string")
    return row


def _spans(row: dict[str, Any], key: str, place: str) -> list[Span]:
    spans = []
    for item in row[key]:
        match item:
            case [int(start), int(end), str(label)]:
                spans.append(Span(start, end, label))
            case [int(start), int(end), str(label), None | int() | float() as score]:
                spans.append(Span(start, end, label, None if score is None else float(score)))
            case _:
                raise _bad(place, f"'{key}' holds {json.dumps(item, ensure_ascii=False)}")
    return spans


def _bad(place: str, found: str) -> DataError:
    return DataError(found, place=place, expected=_SHAPE, fix="write the file again with the run that made it")
