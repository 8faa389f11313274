"""Files in and out: one module per format, and corpora made of split files."""

from nershift.data.formats.base import FORMATS, Format, detect_format, read_sentences, writable, write_sentences
from nershift.data.formats.folders import read_corpus, write_corpus

__all__ = [
    "FORMATS",
    "Format",
    "detect_format",
    "read_corpus",
    "read_sentences",
    "writable",
    "write_corpus",
    "write_sentences",
]
