"""A small corpus in every format that can be read, and ways to damage its files, or to change them without harm."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nershift.data.formats import write_sentences
from nershift.data.spans import Sentence

SENTENCES = [
    Sentence.of(["Ada", "Lovelace", "left", "London", "."], [(0, 2, "PER"), (3, 4, "LOC")]),
    Sentence.of(["Nobody", "spoke", "."]),
    Sentence.of(
        ["In", "São", "Paulo", ",", "1998", ":", "東", "京", "“", "Ruiz", "”", "."], [(1, 3, "LOC"), (9, 10, "PER")]
    ),
]
_NASTY = [
    *(b"\r", b"\n", b"\r\n", b"\xef\xbb\xbf", b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\x1b[2J", b"\x9b", b" ", b"\t"),
    *(b"9" * 5_000, b"-1", b"1e999", b"NaN", b"null", b"true", b'"', b"{", b"}", b"[" * 3_000, b'{"a":' * 2_000),
    *(b"\\ud800", b"\\u0000", b"<", b">", b"&amp;", b"&#9999999;", b"&#" + b"9" * 5_000 + b";", b"<!DOCTYPE a>"),
    *(b"B-", b"I-PER", b"S-LOC", b"O", b"-DOCSTART-", b"#", b"T1\t", b";", b"\xe2\x80\xa8", b"\xc2\x85", b"%", b"*a"),
]


@dataclass(frozen=True)
class Example:
    """``path`` is what is read; ``files`` are those of it that are mutated."""

    name: str
    path: Path
    files: list[Path]


def examples(folder: Path) -> Iterator[Example]:
    """The corpus in each format, in files of its own."""
    for name, suffix in (("conll", ".conll"), ("jsonl", ".jsonl"), ("doccano", ".jsonl"), ("argilla", ".json")):
        path = folder / f"{name}{suffix}"
        write_sentences(path, SENTENCES, name)
        yield Example(name, path, [path])
    path = folder / "zipped.conll.gz"
    write_sentences(path, SENTENCES)
    yield Example("conll", path, [path])
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(_answer(s)) + "\n" for s in SENTENCES))
    yield Example("argilla", path, [path])
    bare = "".join(" ".join(s.tokens) + "\n" for s in SENTENCES)
    for name in ("raw", "text"):
        path = folder / f"{name}.{name}"
        path.write_text(bare)
        yield Example(name, path, [path])
    write_sentences(folder / "brat", SENTENCES, "brat")
    yield Example("brat", folder / "brat", sorted((folder / "brat").iterdir()))
    genre = folder / "ace" / "nw"
    genre.mkdir(parents=True)
    sgm, apf = genre / "a.sgm", genre / "a.apf.xml"
    sgm.write_text(_SGM)
    apf.write_text(_APF)
    yield Example("ace2005", folder / "ace", [sgm, apf])


def _answer(sentence: Sentence) -> dict[str, object]:
    text, offsets = sentence.to_text()
    spans = [{"start": offsets[s.start][0], "end": offsets[s.end - 1][1], "label": s.label} for s in sentence.spans]
    return {"id": text, "fields": {"text": text}, "responses": {"ner": [{"value": spans, "status": "submitted"}]}}


_SGM = "<DOC>\n<DOCID> a </DOCID>\n<TEXT>\nAda Lovelace left London &amp; Rome.\n\nNobody spoke.\n</TEXT>\n</DOC>\n"
_APF = """<?xml version="1.0"?>
<source_file><document DOCID="a">
<entity ID="E1" TYPE="PER"><entity_mention ID="E1-1"><extent><charseq START="6" END="17">Ada Lovelace</charseq></extent>
</entity_mention></entity>
<entity ID="E2" TYPE="GPE"><entity_mention ID="E2-1"><extent><charseq START="24" END="29">London</charseq></extent>
</entity_mention></entity>
</document></source_file>
"""


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one to three accidents."""
    for _ in range(rng.randrange(1, 4)):
        data = rng.choice(_ACCIDENTS)(data, rng)
    return data


def _cut(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 1, 2, 4, 40)))


def _drop(data: bytes, rng: random.Random) -> bytes:
    start, end = _cut(data, rng)
    return data[:start] + data[end:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    start, end = _cut(data, rng)
    return data[:end] + data[start:]


def _flip(data: bytes, rng: random.Random) -> bytes:
    start, _ = _cut(data, rng)
    return data[:start] + bytes([rng.randrange(256)]) + data[start + 1 :]


def _insert(data: bytes, rng: random.Random) -> bytes:
    start, _ = _cut(data, rng)
    return data[:start] + rng.choice(_NASTY) + data[start:]


def _number(data: bytes, rng: random.Random) -> bytes:
    """Another number in place of one."""
    places = [i for i, c in enumerate(data) if chr(c).isdigit()]
    if not places:
        return data
    at = rng.choice(places)
    return data[:at] + rng.choice((b"", b"0", b"-3", b"77", b"1.5", b"9" * 5_000, b'"x"')) + data[at + 1 :]


def _truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _twice(data: bytes, rng: random.Random) -> bytes:
    return data + data


def _swap_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    rng.shuffle(lines)
    return b"\n".join(lines)


_ACCIDENTS: list[Callable[[bytes, random.Random], bytes]] = [
    *(_drop, _repeat, _flip, _insert, _insert, _number, _number, _truncate, _twice, _swap_lines)
]


def inside(suffix: str, change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """A change of what is packed in a file, for formats whose checksum refuses all others."""
    if suffix == ".gz":
        return lambda data: gzip.compress(change(gzip.decompress(data)), mtime=0)
    if suffix == ".spacy":
        return lambda data: zlib.compress(change(zlib.decompress(data)))
    return change
