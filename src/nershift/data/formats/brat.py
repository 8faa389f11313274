"""brat standoff: a ``.txt`` file with a ``.ann`` file beside it, or a folder of such pairs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from nershift.data.corpus import split_name
from nershift.data.formats.align import CharSpan, char_spans, split_document, text_and_offsets
from nershift.data.formats.base import FORMATS, Format
from nershift.data.formats.files import lines_of, read_text, report_returns
from nershift.data.problems import Problems
from nershift.data.spans import Sentence
from nershift.data.tokenizer import sentences as sentence_ranges
from nershift.errors import DataError
from nershift.storage import write_text

_ENTITY = re.compile(r"(T\S*)\t(\S+) (-?\d{1,12} -?\d{1,12}(?:;-?\d{1,12} -?\d{1,12})*)(?:\t(.*))?", re.DOTALL)


def pairs(path: Path) -> list[tuple[Path, Path]]:
    """The ``(text, annotation)`` files that a folder, a ``.txt`` or a ``.ann`` path stands for."""
    annotations = sorted(path.glob("*.ann")) if path.is_dir() else [path.with_suffix(".ann")]
    files = [(ann.with_suffix(".txt"), ann) for ann in annotations]
    lonely = [file for pair in files for file in pair if not file.is_file()]
    if path.is_dir():
        known = {text for text, _ in files}
        lonely += [text.with_suffix(".ann") for text in sorted(path.glob("*.txt")) if text not in known]
    if lonely or not files:
        raise DataError(
            "the file is missing" if lonely else "there is no .ann file here",
            place=str(lonely[0] if lonely else path),
            expected="a .txt and a .ann file of the same name for each document",
            fix="export both files; a document without entities has an empty .ann file",
        )
    return files


def read(path: Path, problems: Problems) -> list[Sentence]:
    """Text-bound annotations (T lines) of each document, cut into sentences that no span crosses.

    Relations, events, attributes and notes are no entities and are skipped.
    """
    sentences: list[Sentence] = []
    for text_file, ann_file in pairs(path):
        # Line ends count as brat counts them: every character of the file, a carriage return included.
        text = read_text(text_file, problems)
        if not text.strip():
            continue
        spans = _annotations(ann_file, text, problems)
        sentences += split_document(text, spans, sentence_ranges(text), str(text_file), problems)
    return sentences


def _annotations(path: Path, text: str, problems: Problems) -> list[CharSpan]:
    if not path.stat().st_size:  # how brat stores a document without entities
        return []
    spans: list[CharSpan] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(report_returns(lines_of(read_text(path, problems)), path, problems), 1):
        if not line.startswith("T"):
            continue
        place = f"{path}:{number}"
        match = _ENTITY.fullmatch(line)
        if match is None:
            problems.report(
                "bad annotation",
                place,
                f"{line!r} is not an entity line",
                expected="T1<tab>TYPE START END<tab>TEXT",
                fix="correct the line; reading with repair leaves it out",
                repair="left out",
            )
            continue
        key, label, fragments, quoted = match.groups()
        if key in seen:
            problems.report(
                "duplicate id",
                place,
                f"id {key} was already used in line {seen[key]}",
                expected="each id once",
                fix="renumber the annotations",
                repair="both annotations kept",
            )
        seen.setdefault(key, number)
        numbers = [int(n) for n in re.findall(r"-?\d+", fragments)]
        span = CharSpan(min(numbers), max(numbers), label, None, place)
        if ";" in fragments:
            problems.report(
                "discontinuous span",
                place,
                f"{key} ({label}) consists of {fragments.count(';') + 1} fragments",
                expected="one stretch of text",
                fix="annotate one stretch, or read with repair to take all that lies between",
                repair="read as one span from the first to the last fragment",
            )
        elif quoted is not None and 0 <= span.start < span.end <= len(text):
            _compare(span, text, quoted, problems)
        spans.append(span)
    return spans


def _compare(span: CharSpan, text: str, quoted: str, problems: Problems) -> None:
    there = text[span.start : span.end]
    if there.split() != quoted.split():
        problems.report(
            "text mismatch",
            span.place,
            f"the annotation quotes {quoted!r} but the text has {there!r} at {span.start}:{span.end}",
            expected="offsets that count characters (not bytes) of the .txt file beside it",
            fix="use the .txt file that was annotated, unchanged",
            repair="the offsets are trusted",
        )


def write(path: Path, sentences: Iterable[Sentence]) -> None:
    """Write one document, one sentence per line: the pair that ``path`` names, or ``sentences.txt`` in a folder.

    Line breaks inside a sentence are written as spaces; tokens are not part of the format.
    """
    target = path if path.suffix in (".ann", ".txt") else path / "sentences.ann"
    lines: list[str] = []
    entities: list[str] = []
    at = 0
    for sentence in sentences:
        text, offsets = text_and_offsets(sentence)
        text = text.replace("\n", " ").replace("\r", " ")
        for span in char_spans(sentence, offsets):
            if not span.label or re.search(r"\s", span.label):
                raise DataError(
                    f"entity type {span.label!r} has white space",
                    place=sentence.place,
                    expected="a type without white space",
                    fix="rename the type with a label map",
                )
            quoted = text[span.start : span.end]
            entities.append(f"T{len(entities) + 1}\t{span.label} {at + span.start} {at + span.end}\t{quoted}\n")
        lines.append(text + "\n")
        at += len(text) + 1
    write_text(target.with_suffix(".txt"), "".join(lines))
    write_text(target.with_suffix(".ann"), "".join(entities))


def matches(path: Path, head: str) -> float:
    """A text with its annotation beside it, or a folder of them: of one split, or each named after a split."""
    if not path.is_dir():
        return 0.9 if path.suffix == ".txt" and path.with_suffix(".ann").is_file() else 0.0
    splits = [split_name(file) for file in path.glob("*.ann")]
    if not splits:
        return 0.0
    return 1.0 if None in splits or len(set(splits)) < len(splits) else 0.5


FORMATS.register("brat")(Format((".ann",), read, write, matches, companion=".txt", folder=True, nested=True))
