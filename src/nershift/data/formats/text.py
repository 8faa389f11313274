"""``text``: running text, cut into sentences and tokens."""

from __future__ import annotations

from pathlib import Path

from nershift.data.formats.align import split_document
from nershift.data.formats.base import FORMATS, Format
from nershift.data.formats.files import read_text
from nershift.data.problems import Problems
from nershift.data.spans import Sentence
from nershift.data.tokenizer import sentences as sentence_ranges


def read(path: Path, problems: Problems) -> list[Sentence]:
    text = read_text(path, problems)
    return split_document(text, (), sentence_ranges(text), str(path), problems)


FORMATS.register("text")(Format((".txt",), read, labelled=False))
