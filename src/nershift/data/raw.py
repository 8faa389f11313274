"""Unlabelled text of any size: a file as a sequence of sentences, which are read when asked for."""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Literal, overload

from nershift.data.formats.files import MARK, has_returns_alone, reading, words_of
from nershift.data.formats.unpack import TextBytes
from nershift.data.problems import Problem
from nershift.data.spans import Sentence
from nershift.data.tokenizer import sentences as sentence_ranges
from nershift.data.tokenizer import tokenize
from nershift.errors import DataError

_LONGEST = 1 << 20  # bytes of a line
_MOST_TOKENS = 1000  # of a sentence
_MARKS = 8192  # places in the file that are remembered
_SHOWN = 5  # bad lines that are kept as examples

RawFormat = Literal["raw", "text"]


class RawText(Sequence[Sentence]):
    """Sentences of a file, read when asked for: memory does not grow with the file.

    The file is read once to count and check it. A line that cannot be used (not UTF-8, a megabyte long, a
    sentence of more than 1,000 tokens) is skipped and counted in ``bad``; ``examples`` holds the first few.
    Compressed files, running text and files with carriage returns for line ends are copied to a temporary file, one
    sentence per line, which is deleted with the object.

    Args:
        path: one sentence per line, or running text; ``.gz`` is decompressed.
        format: ``raw`` (tokens separated by spaces) or ``text`` (split into sentences and tokens by rules).
    """

    def __init__(self, path: str | Path, format: RawFormat = "raw") -> None:
        self.path, self.format = Path(path), format
        self.bad: Counter[str] = Counter()
        self.examples: list[Problem] = []
        self._marks, self._stride, self._count = list[int](), 1, 0
        returns = has_returns_alone(self.path)
        packed = self.path.suffix == ".gz"
        with reading(self.path), io.BufferedReader(TextBytes(self.path, packed, returns), 1 << 16) as file:
            kept_elsewhere = format == "text" or packed or returns
            self._file: IO[bytes] = (
                tempfile.TemporaryFile() if kept_elsewhere else self.path.open("rb")  # noqa: SIM115 - kept open
            )
            self._digest = self._survey(file, self._file if kept_elsewhere else None)
        if self.bad.total() > self._count:
            first = self.examples[0]
            raise DataError(
                f"{self.bad.total():,} lines cannot be used and {self._count:,} sentences can; "
                f"the first bad line: {first.found}",
                place=first.place,
                expected="UTF-8 text, one sentence per line",
                fix="check that this is a text file",
            )
        if not self._count:
            raise DataError("the file has no sentences", place=str(path), expected="one sentence per line")

    def _survey(self, file: IO[bytes], copy: IO[bytes] | None) -> str:
        """Count, check, hash and mark the sentences; the hash is that of a corpus with a ``raw`` split of them."""
        hashed = hashlib.sha256(b"\0raw\0")
        for number, at, line in _lines(file):
            for tokens in self._sentences(line, f"{self.path}:{number}"):
                self._mark(at if copy is None else copy.tell())
                if copy is not None:
                    guard = MARK if tokens[0].startswith(MARK) else ""
                    copy.write((guard + " ".join(tokens) + "\n").encode())
                hashed.update("\t".join(tokens).encode() + b"\n[]\n")
        return hashed.hexdigest()

    def _mark(self, at: int) -> None:
        if len(self._marks) == _MARKS and self._count == _MARKS * self._stride:
            self._marks, self._stride = self._marks[::2], 2 * self._stride  # every second one from here on
        if self._count % self._stride == 0:
            self._marks.append(at)
        self._count += 1

    def _sentences(self, line: bytes | None, place: str) -> Iterator[list[str]]:
        """Token lists of a line: none or one in ``raw``, any number in ``text``."""
        if line is None:
            self._note("long line", place, f"a line of more than {_LONGEST:,} bytes")
            return
        text = _decode(line)
        if text is None:
            self._note("encoding", place, "bytes that are not UTF-8")
            return
        if self.format == "raw":
            rows = [words_of(text)]
        else:
            cut = [text[a:b] for a, b in sentence_ranges(text)]
            rows = [[piece[a:b] for a, b in tokenize(piece)] for piece in cut]
        for tokens in rows:
            if len(tokens) > _MOST_TOKENS:
                self._note("long sentence", place, f"a sentence of {len(tokens):,} tokens")
            elif tokens:
                yield tokens

    def _note(self, kind: str, place: str, found: str) -> None:
        self.bad[kind] += 1
        if len(self.examples) < _SHOWN:
            self.examples.append(Problem(kind, place, found, repair="left out"))

    def summary(self) -> str:
        """One line for people: how much text there is, and what was skipped."""
        text = f"{self.path}: {self._count:,} sentences"
        if self.bad:
            kinds = ", ".join(f"{kind} {n:,}" for kind, n in self.bad.most_common())
            first = self.examples[0]
            text += f"; {self.bad.total():,} bad lines left out ({kinds}), first {first.place}: {first.found}"
        return text

    def digest(self) -> str:
        """Equal to that of a :class:`~nershift.data.corpus.Corpus` with these sentences as its ``raw`` split."""
        return self._digest

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sentence]: ...
    def __getitem__(self, index: int | slice) -> Sentence | list[Sentence]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._count)
            if step != 1:
                return [self[i] for i in range(start, stop, step)]
            return list(self._read(start, stop))
        if not -self._count <= index < self._count:
            raise IndexError(index)
        start = index % self._count
        return next(self._read(start, start + 1))

    def __iter__(self) -> Iterator[Sentence]:
        for start in range(0, self._count, _MARKS):
            yield from self[start : start + _MARKS]

    def _read(self, start: int, stop: int) -> Iterator[Sentence]:
        """Sentences from ``start`` on: from the nearest mark before it, then line by line."""
        at = start - start % self._stride
        if start >= stop:
            return
        self._file.seek(self._marks[start // self._stride])
        for _, _, line in _lines(self._file):
            text = _decode(line) if line is not None else None
            tokens = words_of(text) if text else []
            if not 0 < len(tokens) <= _MOST_TOKENS:
                continue
            if at >= start:
                yield Sentence(tuple(tokens), place=f"{self.path}, sentence {at + 1}")
            at += 1
            if at == stop:
                return


class Joined(Sequence[Sentence]):
    """Several texts as one, without a copy."""

    def __init__(self, texts: Sequence[Sequence[Sentence]]) -> None:
        self.texts = list(texts)

    def __len__(self) -> int:
        return sum(len(text) for text in self.texts)

    def __iter__(self) -> Iterator[Sentence]:
        return chain.from_iterable(self.texts)

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sentence]: ...
    def __getitem__(self, index: int | slice) -> Sentence | list[Sentence]:
        if isinstance(index, int):
            at = range(len(self))[index]
            return self[at : at + 1][0]
        start, stop, step = index.indices(len(self))
        out: list[Sentence] = []
        for text in self.texts:
            out += text[max(start, 0) : max(stop, 0)]
            start, stop = start - len(text), stop - len(text)
        return out[::step]


def _lines(file: IO[bytes]) -> Iterator[tuple[int, int, bytes | None]]:
    """Number, offset and bytes of each line; None in place of a line that is too long to be one."""
    number, at = 0, file.tell()
    while line := file.readline(_LONGEST):
        number += 1
        size, whole = len(line), line.endswith(b"\n") or len(line) < _LONGEST
        while not line.endswith(b"\n") and len(line) == _LONGEST:
            line = file.readline(_LONGEST)
            size += len(line)
        yield number, at, line if whole else None
        at += size


def _decode(line: bytes) -> str | None:
    try:
        return line.decode("utf-8").removeprefix(MARK).rstrip("\r\n")
    except UnicodeDecodeError:
        return None
