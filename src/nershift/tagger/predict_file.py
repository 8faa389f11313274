"""Tag a file: lines of text or a corpus, some hundred at a time."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from nershift.data.formats import detect_format, read_sentences, write_sentences
from nershift.data.formats.align import text_and_offsets
from nershift.data.formats.files import has_returns_alone
from nershift.data.formats.unpack import TextBytes
from nershift.data.spans import Sentence
from nershift.errors import DataError
from nershift.tagger.ensemble import Ensemble
from nershift.tagger.entities import Entity
from nershift.tagger.tagger import Tagger

CHUNK = 256  # texts tagged at once


def predict_file(
    tagger: Tagger | Ensemble, file: str, *, min_confidence: float = 0.0, adapt: bool = False, why: bool = False
) -> Iterator[dict[str, Any]]:
    """One result per line of text, or per sentence of a corpus file: ``{text, entities}``.

    Args:
        file: a path, or ``-`` for standard input. The tokens of a corpus file are kept.
        min_confidence: omit entities below this probability.
        adapt: tag each sentence with weights adapted to its nearest labelled sentences.
        why: add ``neighbours``, the labelled sentences that each sentence was adapted to.
    """
    rows: Iterable[Any]  # of sentences, or of texts
    tag: Callable[[Sequence[Any]], Iterable[tuple[str, list[Entity]]]]
    if _is_corpus(file):
        tag_sentences = _sentence_tagger(tagger, adapt)
        rows, tag = read_sentences(file), lambda some: map(_placed, tag_sentences(some))
    else:
        tag_texts = partial(_one(tagger).tag_texts, adapt=True) if adapt else tagger.tag_texts
        rows, tag = _lines(file), lambda some: zip(some, tag_texts(some), strict=True)
    for some in _chunks(rows):
        for row, (text, entities) in zip(some, tag(some), strict=True):
            kept = [e.to_dict() for e in entities if e.score >= min_confidence]
            result: dict[str, Any] = {"text": text, "entities": kept}
            if why:
                result["neighbours"] = [[n.to_dict() for n in near] for near in _one(tagger).neighbours(row)]
            yield result


def predict_corpus(
    tagger: Tagger | Ensemble, file: str, out: Path, *, min_confidence: float = 0.0, adapt: bool = False
) -> list[Sentence]:
    """Tag a corpus or text file and write the sentences with their entities; the ending of ``out`` says the format."""
    if file == "-":
        raise DataError("--out needs a file to read", place="-", fix="give a path in place of -")
    tagged = [
        s.with_spans(x for x in s.spans if (x.score or 0) >= min_confidence)
        for s in _sentence_tagger(tagger, adapt)(read_sentences(file))
    ]
    write_sentences(out, tagged)
    return tagged


def _sentence_tagger(tagger: Tagger | Ensemble, adapt: bool) -> Callable[[Sequence[Sentence]], list[Sentence]]:
    return _one(tagger).adapt_sentences if adapt else tagger.tag_sentences


def _one(tagger: Tagger | Ensemble) -> Tagger:
    return tagger.taggers[0] if isinstance(tagger, Ensemble) else tagger


def _is_corpus(file: str) -> bool:
    named = file != "-" and (Path(file).is_dir() or Path(file).suffix not in (".txt", ""))
    return named and detect_format(file) is not None


def _placed(sentence: Sentence) -> tuple[str, list[Entity]]:
    """The text of a tagged sentence, and its entities there."""
    text, offsets = text_and_offsets(sentence)
    return text, [Entity.of(span, text, offsets) for span in sentence.spans]


def _lines(file: str) -> Iterator[str]:
    """Lines of a UTF-8 file or of standard input, without their ends and byte order marks."""
    if file != "-" and not Path(file).is_file():
        raise DataError("no such file", place=file, fix="check the path, or use - for standard input")
    with sys.stdin.buffer if file == "-" else _opened(Path(file)) as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield line.decode("utf-8-sig").rstrip("\r\n")
            except UnicodeDecodeError:
                raise DataError("not UTF-8", place=f"{file}:{number}", fix="save the text as UTF-8") from None


def _opened(file: Path) -> BinaryIO:
    return io.BufferedReader(TextBytes(file, packed=False, returns=has_returns_alone(file)), 1 << 16)


def _chunks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    left = iter(rows)
    while chunk := list(islice(left, CHUNK)):
        yield chunk
