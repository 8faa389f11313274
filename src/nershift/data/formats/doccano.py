"""doccano's JSONL export: ``label`` as ``[start, end, name]`` triples, or the newer ``entities`` objects."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nershift.data.formats.align import align, char_spans, text_and_offsets
from nershift.data.formats.base import FORMATS, Format
from nershift.data.formats.records import char_spans_of, first_record, read_records, text_of, write_records
from nershift.data.problems import Problems
from nershift.data.spans import Sentence


def read(path: Path, problems: Problems) -> list[Sentence]:
    """One sentence per record; the text is tokenised, as doccano keeps no tokens."""
    sentences = []
    for place, record in read_records(path, problems):
        # Some versions export the text as "data".
        text = text_of(record, place, problems, "data" if "data" in record and "text" not in record else "text")
        if text is None:
            continue
        items = record.get("entities", record.get("label", record.get("labels")))
        sentences.append(align(text, char_spans_of(items, place, problems), place, problems))
    return sentences


def write(path: Path, sentences: Iterable[Sentence]) -> None:
    """Write records that doccano imports for sequence labelling; ids count from 1."""
    write_records(path, (_record(i, sentence) for i, sentence in enumerate(sentences, 1)))


def _record(number: int, sentence: Sentence) -> dict[str, object]:
    text, offsets = text_and_offsets(sentence)
    label = [[s.start, s.end, s.label] for s in char_spans(sentence, offsets)]
    return {"id": number, "text": text, "label": label}


def matches(path: Path, head: str) -> float:
    record = first_record(head) or {}
    entities = record.get("entities")
    newer = isinstance(entities, list) and bool(entities) and "start_offset" in str(entities[0])
    return 0.7 if newer or ("label" in record and not {"spans", "entities", "tokens"} & record.keys()) else 0.0


FORMATS.register("doccano")(Format((".doccano.jsonl",), read, write, matches, nested=True))
