"""doccano's JSONL export: ``label`` as ``[start, end, name]`` triples, or the newer ``entities`` objects."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nershift.data.formats.align import align, char_spans, text_and_offsets
from nershift.data.formats.records import char_spans_of, read_records, text_of, write_records
from nershift.data.problems import Problems
from nershift.data.spans import Sentence


def read(path: Path, problems: Problems) -> list[Sentence]:
    """One sentence a record; the text is tokenised, as doccano keeps no tokens."""
    made = []
    for place, record in read_records(path, problems):
        # Some versions export the text as "data".
        text = text_of(record, place, problems, "data" if "data" in record and "text" not in record else "text")
        if text is None:
            continue
        items = record.get("entities", record.get("label", record.get("labels")))
        made.append(align(text, char_spans_of(items, place, problems), place, problems))
    return made


def write(path: Path, sentences: Iterable[Sentence]) -> None:
    """Write records that doccano imports for sequence labelling; ids count from 1."""
    write_records(path, (_record(i, sentence) for i, sentence in enumerate(sentences, 1)))


def _record(number: int, sentence: Sentence) -> dict[str, object]:
    text, offsets = text_and_offsets(sentence)
    label = [[s.start, s.end, s.label] for s in char_spans(sentence, offsets)]
    return {"id": number, "text": text, "label": label}
