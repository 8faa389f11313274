"""spaCy's binary corpus file (DocBin, ``.spacy``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from nershift.data.formats.align import CharSpan, align, text_and_offsets
from nershift.data.formats.base import FORMATS, Format
from nershift.data.formats.files import read_bytes
from nershift.data.formats.unpack import zlib_streams
from nershift.data.problems import Problems
from nershift.data.spans import Sentence, overlapping
from nershift.errors import DataError, MissingExtraError, NershiftError
from nershift.storage import write_bytes

# White space that spaCy keeps as tokens of its own; it separates ours.
_GAP = re.compile(r"[ \t\r\n]*")
_GROUP = "sc"  # the span group that spaCy's span categoriser uses


def _spacy() -> Any:
    try:
        import spacy
        import spacy.tokens
        import spacy.vocab
    except ImportError:
        raise MissingExtraError("spacy", "spacy", "reading and writing .spacy files") from None
    return spacy


def read(path: Path, problems: Problems) -> list[Sentence]:
    """Entities of each sentence: ``doc.ents``, or the span group ``sc`` where they are nested or there are no others.

    A doc without sentence borders is one sentence.
    Tokens made of spaces, tabs and line ends are left out of the sentence and stay in its text.
    """
    spacy = _spacy()
    data = read_bytes(path)
    try:
        docs: list[Any] = []
        for stream in zlib_streams(data, path):
            docs += spacy.tokens.DocBin().from_bytes(stream).get_docs(spacy.vocab.Vocab())
        rows = [row for number, doc in enumerate(docs, 1) for row in _rows(doc, f"{path}:{number}", problems.nested)]
    except NershiftError:
        raise
    except Exception as error:  # spaCy lets errors of three libraries through
        raise DataError(
            f"not a readable DocBin ({type(error).__name__}: {error})",
            place=str(path),
            expected="a file written by DocBin.to_disk, or several joined",
            fix="convert the file with the spaCy version that wrote it",
        ) from None
    if not docs:
        problems.report(
            "empty file", str(path), "the file holds no documents", expected="at least one", repair="no sentences"
        )
    return [align(text, spans, place, problems, offsets) for text, spans, place, offsets in rows]


def _rows(doc: Any, place: str, nested: bool) -> Iterator[tuple[str, list[CharSpan], str, list[tuple[int, int]]]]:
    """Text, spans, place and tokens of each sentence of a doc."""
    group = doc.spans[_GROUP] if _GROUP in doc.spans and (nested or not doc.ents) else ()
    for part in doc.sents if len(doc) and doc.has_annotation("SENT_START") else [doc[:]]:
        base = doc[part.start].idx if part.end > part.start else 0
        text = part.text_with_ws if len(part) == len(doc) else part.text
        spans = [
            CharSpan(e.start_char - base, e.end_char - base, e.label_, None, place)
            for e in group or doc.ents
            if part.start <= e.start < part.end
        ]
        words = [t for t in part if not _GAP.fullmatch(t.text)]
        yield text, spans, place, [(t.idx - base, t.idx - base + len(t.text)) for t in words]


def write(path: Path, sentences: Iterable[Sentence]) -> None:
    """One doc per sentence; text between tokens other than spaces, tabs and line ends becomes one space.

    The spans of a sentence in which some overlap are in the group ``sc``, as ``doc.ents`` cannot hold them.
    """
    spacy = _spacy()
    vocab = spacy.vocab.Vocab()
    docs = spacy.tokens.DocBin(attrs=["ORTH", "ENT_IOB", "ENT_TYPE"])
    for sentence in sentences:
        words, spaces, where = _words(sentence)
        doc = spacy.tokens.Doc(vocab, words=words, spaces=spaces)
        ents = [spacy.tokens.Span(doc, where[s.start], where[s.end - 1] + 1, label=s.label) for s in sentence.spans]
        if overlapping(sentence.spans):
            doc.spans[_GROUP] = ents
        doc.set_ents([] if overlapping(sentence.spans) else ents, default="outside")
        docs.add(doc)
    write_bytes(path, docs.to_bytes())


def _words(sentence: Sentence) -> tuple[list[str], list[bool], list[int]]:
    """Words with their spaces, white space tokens included, and the index of each token among them."""
    text, offsets = text_and_offsets(sentence)
    words: list[str] = []
    spaces: list[bool] = []
    where: list[int] = []
    at = 0
    for start, end in [*offsets, (len(text), len(text))]:
        gap = text[at:start]
        if not _GAP.fullmatch(gap):
            gap = " "
        if words and gap.startswith(" "):
            spaces[-1], gap = True, gap[1:]
        if gap:
            words.append(gap)
            spaces.append(False)
        if start < end:
            where.append(len(words))
            words.append(text[start:end])
            spaces.append(False)
        at = end
    return words, spaces, where


FORMATS.register("docbin")(Format((".spacy",), read, write, nested=True))
