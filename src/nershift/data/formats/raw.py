"""Unlabelled text: ``raw`` files with a tokenised sentence a line, and running ``text``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nershift.data.formats.align import split_document
from nershift.data.formats.files import lines_of, read_text, write_text
from nershift.data.problems import Problems
from nershift.data.spans import Sentence
from nershift.data.tokenizer import sentences as sentence_ranges
from nershift.errors import DataError


def read_raw(path: Path, problems: Problems) -> list[Sentence]:
    """One sentence a line, tokens parted by spaces; blank lines part documents."""
    shared: dict[str, str] = {}
    made = []
    for number, line in enumerate(lines_of(read_text(path, problems)), 1):
        tokens = tuple(shared.setdefault(t, t) for t in line.replace("\t", " ").split(" ") if t)
        if tokens:
            made.append(Sentence(tokens, place=f"{path}:{number}"))
    return made


def read_text_file(path: Path, problems: Problems) -> list[Sentence]:
    """Running text, cut into sentences and tokens."""
    text = read_text(path, problems)
    return split_document(text, (), sentence_ranges(text), str(path), problems)


def write_raw(path: Path, sentences: Iterable[Sentence]) -> None:
    """Tokens parted by spaces; sentences with entities are refused, since this format would lose them."""
    out = []
    for sentence in sentences:
        if sentence.spans:
            raise DataError(
                "the sentence has entities, which raw text cannot hold",
                place=sentence.place,
                expected="sentences without labels",
                fix="write conll or jsonl, or remove the spans first",
            )
        if not sentence.tokens or any(not t or any(c in t for c in " \t\n\r") for t in sentence.tokens):
            raise DataError(
                "the sentence has no tokens, or one with a space in it",
                place=sentence.place,
                expected="tokens without white space",
                fix="write jsonl instead",
            )
        out.append(" ".join(sentence.tokens) + "\n")
    write_text(path, "".join(out))
