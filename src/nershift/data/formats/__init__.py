"""Files in and out: one module a format, a table of them, and corpora made of split files."""

from nershift.data.formats.folders import read_corpus, split_name, write_corpus
from nershift.data.formats.registry import (
    FORMATS,
    WRITABLE,
    Format,
    detect_format,
    read_sentences,
    write_sentences,
)

__all__ = [
    "FORMATS",
    "WRITABLE",
    "Format",
    "detect_format",
    "read_corpus",
    "read_sentences",
    "split_name",
    "write_corpus",
    "write_sentences",
]
