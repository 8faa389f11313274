"""Argilla records: token classification of version 1 (JSON or JSONL) and span questions of version 2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nershift.data.formats.align import CharSpan, align, char_spans, text_and_offsets
from nershift.data.formats.base import FORMATS, Format
from nershift.data.formats.jsonl import token_offsets
from nershift.data.formats.records import Record, char_spans_of, first_record, read_records, text_of, write_records
from nershift.data.problems import Problems
from nershift.data.spans import Sentence


def read(path: Path, problems: Problems) -> list[Sentence]:
    """Read reviewed annotations; a record that only a model has labelled is a problem."""
    sentences = []
    for place, record in read_records(path, problems):
        read_one = _version_2 if isinstance(record.get("fields"), Mapping) else _version_1
        sentence = read_one(record, place, problems)
        if sentence is not None:
            sentences.append(sentence)
    return sentences


def _version_1(record: Record, place: str, problems: Problems) -> Sentence | None:
    text = text_of(record, place, problems)
    if text is None:
        return None
    items = record.get("annotation")
    if items is None:
        items = record.get("prediction")
        _not_reviewed(place, items, problems)
    spans = char_spans_of(items, place, problems, label_first=True)
    return align(text, spans, place, problems, token_offsets(record.get("tokens"), text, place, problems))


def _version_2(record: Record, place: str, problems: Problems) -> Sentence | None:
    fields: Record = record["fields"]
    texts = [name for name, value in fields.items() if isinstance(value, str)]
    name = "text" if "text" in texts or len(texts) != 1 else texts[0]
    text = text_of(fields, place, problems, name)
    if text is None:
        return None
    answers = _answers(record.get("responses"), place, problems)
    if not answers:
        answers = _answers(record.get("suggestions"), place, problems)
        _not_reviewed(place, answers[0] if answers else None, problems)
    if any(sorted(a[:3] for a in answer) != sorted(a[:3] for a in answers[0]) for answer in answers[1:]):
        problems.report(
            "several answers",
            place,
            f"{len(answers)} annotators gave different spans",
            expected="one agreed annotation per record",
            fix="resolve the differences before the export",
            repair="the first answer is used",
        )
    return align(text, answers[0] if answers else [], place, problems)


def _answers(questions: Any, place: str, problems: Problems) -> list[list[CharSpan]]:
    """Every submitted answer to a span question: a value that is a list of objects with a start."""
    answers = []
    for given in questions.values() if isinstance(questions, Mapping) else ():
        for answer in given if isinstance(given, list) else [given]:
            if not isinstance(answer, Mapping) or answer.get("status", "submitted") != "submitted":
                continue
            value = answer.get("value")
            if isinstance(value, list) and all(isinstance(v, Mapping) and "start" in v for v in value):
                answers.append(char_spans_of(value, place, problems))
    return answers


def _not_reviewed(place: str, predicted: Any, problems: Problems) -> None:
    problems.report(
        "not reviewed",
        place,
        "the record has no annotation" + (", only predictions" if predicted else ""),
        expected="an annotation or a submitted response",
        fix="review the record, or filter the export by status",
        repair="the predicted spans are used" if predicted else "read as a sentence without entities",
    )


def write(path: Path, sentences: Iterable[Sentence], reviewed: bool = True) -> None:
    """Write version 1 records (JSONL), the form that keeps the tokens; without ``reviewed``, as work still to do."""
    write_records(path, (_record(i, sentence, reviewed) for i, sentence in enumerate(sentences)))


def _record(number: int, sentence: Sentence, reviewed: bool) -> dict[str, Any]:
    text, offsets = text_and_offsets(sentence)
    spans = [[s.label, s.start, s.end] for s in char_spans(sentence, offsets)]
    return {
        "id": number,
        "text": text,
        "tokens": list(sentence.tokens),
        "annotation" if reviewed else "prediction": spans,
        "status": "Validated" if reviewed else "Default",
    }


def matches(path: Path, head: str) -> float:
    record = first_record(head) or {}
    return 0.8 if isinstance(record.get("fields"), dict) or {"annotation", "prediction"} & record.keys() else 0.0


FORMATS.register("argilla")(Format((".argilla.jsonl", ".json"), read, write, matches, nested=True))
