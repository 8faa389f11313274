"""The process that reads an uploaded file: ``python -m nershift.server.read_upload FOLDER OUT FORMAT BYTES SECONDS``.

It is a separate process, with a bound on its memory and time, since files come from anywhere: what a damaged or
hostile one does to a reader, or to the libraries below it, does not reach the server. FORMAT may be empty.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from nershift.data.formats import FORMATS, detect_format, read_corpus, read_sentences
from nershift.data.spans import Sentence
from nershift.errors import DataError, NershiftError
from nershift.server import limits

_MOST_MEMBERS = 1_000  # of a zip
DISK_FULL = 28  # what the process then ends with


def main(folder: Path, out: Path, format: str | None) -> int:
    out = out.resolve()
    os.chdir(folder)  # so that messages name files as they were sent
    try:
        result: dict[str, Any] = _read(format)
    except NershiftError as error:
        said = {"place": error.place, "found": error.found, "expected": error.expected, "fix": error.fix}
        result = {"error": {**said, "place": str(error.place or "").removeprefix("./")}}
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return DISK_FULL
        raise
    try:
        out.write_text(json.dumps(result), encoding="utf-8")
    except OSError:
        return DISK_FULL
    return 0


def _read(format: str | None) -> dict[str, Any]:
    path = _innermost(Path())
    if path.suffix == ".zip":
        _unzip(path)
        path = _innermost(Path())
    if path.is_file():
        format = format or detect_format(path)
        sentences = read_sentences(path, format)
    else:
        with suppress(DataError):
            format = format or detect_format(path)
        sentences = [s for split in read_corpus(path, format=format).splits.values() for s in split]
    sentences = [s for s in sentences if s.tokens]
    _check(sentences, str(path))
    labelled = any(s.spans for s in sentences) and (format is None or FORMATS[format].labelled)
    return {"format": format or "corpus", "labelled": labelled, "sentences": [_row(s, labelled) for s in sentences]}


def _innermost(path: Path) -> Path:
    """The file that alone is in a folder, or in the only folder in it; else the folder that has several."""
    while path.is_dir() and len(inside := list(path.iterdir())) == 1:
        path = inside[0]
    return path


def _unzip(path: Path) -> None:
    """Go to a folder with the files of a zip: ``zipfile`` writes none elsewhere, and none larger than it says."""
    most = int(os.environ["NERSHIFT_UNPACKED_MB"]) * 1_000_000
    try:
        with zipfile.ZipFile(path) as packed:
            members = packed.infolist()
            if len(members) > _MOST_MEMBERS or sum(member.file_size for member in members) > most:
                found = f"more than {_MOST_MEMBERS} files or {most // 1_000_000} MB come out of this zip"
                raise DataError(found, place=str(path), fix="send fewer files at once")
            packed.extractall("unpacked")
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise DataError(f"the zip cannot be unpacked ({error})", place=str(path), fix="pack it again") from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise DataError(f"the zip cannot be unpacked ({error})", place=str(path), fix="pack it again") from None
    os.chdir("unpacked")


def _check(sentences: list[Sentence], place: str) -> None:
    fix = "split it, or let `nershift next` choose sentences of it"
    if not sentences:
        raise DataError("there are no sentences in it", place=place, fix="see whether it is the right file")
    if len(sentences) > limits.MOST_FILE_SENTENCES:
        found = f"{len(sentences):,} sentences, at most {limits.MOST_FILE_SENTENCES:,} go into the queue as one file"
        raise DataError(found, place=place, fix=fix)
    if (tokens := sum(map(len, sentences))) > limits.MOST_FILE_TOKENS:
        found = f"{tokens:,} tokens, at most {limits.MOST_FILE_TOKENS:,} go into the queue as one file"
        raise DataError(found, place=place, fix=fix)
    for sentence in sentences:
        longest = max(map(len, sentence.tokens))
        if len(sentence) > limits.MOST_TOKENS or longest > limits.MOST_LETTERS:
            found = f"a sentence of {len(sentence):,} tokens, the longest of {longest:,} characters"
            expected = f"at most {limits.MOST_TOKENS:,} tokens, of {limits.MOST_LETTERS} characters each"
            raise DataError(found, place=sentence.place or place, expected=expected, fix="break it into lines")
        if any("\ud800" <= c <= "\udfff" for token in sentence.tokens for c in token):
            raise DataError("half a character (a lone surrogate)", place=sentence.place or place, fix="replace it")
        bad = next((s.label for s in sentence.spans if not _usable(s.label)), None)
        if bad is not None:
            expected = "types without white space, of 60 characters at most, other than O"
            raise DataError(f"the type {bad!r}", place=sentence.place or place, expected=expected, fix="rename it")


def _usable(label: str) -> bool:
    return 0 < len(label) <= 60 and label != "O" and label.isprintable() and " " not in label


def _row(sentence: Sentence, labelled: bool) -> dict[str, Any]:
    """A sentence as the page has it: its words, what stands before each, and its entities where the file has any."""
    gaps = ["", *[" "] * (len(sentence) - 1)]
    if sentence.text is not None and sentence.offsets is not None:
        ends = [0, *(end for _, end in sentence.offsets)]
        cut = (sentence.text[end:start] for end, (start, _) in zip(ends, sentence.offsets, strict=False))
        gaps = ["", *list(cut)[1:]]
    row: dict[str, Any] = {"tokens": sentence.tokens, "gaps": gaps}
    if labelled:
        row["entities"] = [{"start": s.start, "end": s.end, "label": s.label} for s in sentence.spans]
    return row


def _bound(memory: int, seconds: float) -> None:
    with suppress(ImportError, ValueError, OSError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))


if __name__ == "__main__":
    _folder, _out, _format, _memory, _seconds = sys.argv[1:]
    _bound(int(_memory), float(_seconds))
    sys.exit(main(Path(_folder), Path(_out), _format or None))
