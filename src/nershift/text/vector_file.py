"""The text layout of word vectors: first line, columns, and what can be wrong with a row."""

from __future__ import annotations

import gzip
import io
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from nershift.data.formats.unpack import TextBytes
from nershift.data.problems import Problem, Problems
from nershift.errors import DataError

LOOKED_AT = 64  # lines that decide the number of columns where the first line does not
GZIP, ZIP, BOM = b"\x1f\x8b", b"PK\x03\x04", b"\xef\xbb\xbf"


@dataclass(frozen=True)
class VectorFile:
    """A vector file whose layout is known; nothing is held open between calls."""

    path: Path
    dim: int
    declared: int | None
    """Number of rows that the first line states, if it does."""
    separator: bytes

    @classmethod
    def open(cls, path: str | Path) -> VectorFile:
        """Look at the beginning of a file and find its layout."""
        path = Path(path)
        top = [line for _, line in islice(_lines(path), LOOKED_AT + 1)]
        if not top:
            raise DataError("the file is empty", place=str(path), expected="a word and its numbers per line")
        first = top[0].split()
        has_header = len(first) == 2 and all(part.isdigit() for part in first)
        body = top[has_header:]
        separator = b"\t" if body and b" " not in body[0] else b" "
        sizes = Counter(line.count(separator) for line in body)
        rows, dim = map(int, first) if has_header else (None, min(sizes, key=lambda size: (-sizes[size], size)))
        if dim < 1 or any(b"\0" in line for line in body):
            raise DataError(
                "this is not a text file of word vectors",
                place=str(path),
                expected="a word and its numbers per line, separated by single spaces",
                fix="convert a binary file (.bin) to the text format first",
            )
        return cls(path, dim, rows, separator)

    def rows(self, problems: Problems, limit: int | None) -> Iterator[tuple[int, str, bytes]]:
        """Line number, word and text of the numbers, for each row with the right number of columns.

        A malformed row is a problem even if the caller does not need its word.
        """
        seen = 0
        for line, content in islice(_lines(self.path), 0 if self.declared is None else 1, None):
            if seen == limit:
                return
            seen += 1
            place = f"{self.path}:{line}"
            extra = content.count(self.separator) - self.dim
            if extra == 0:
                head, _, numbers = content.partition(self.separator)
            elif extra > 0 and not all(map(_is_number, content.split(self.separator, extra + 1)[1:-1])):
                head, *columns = content.rsplit(self.separator, self.dim)
                numbers = b" ".join(columns)
            else:
                source = "most of its first rows" if self.declared is None else "the first line of the file"
                found, expected = f"a row with {self.dim + extra} numbers", f"{self.dim} numbers as in {source}"
                fix = "correct or remove the row, or read with repair; a cut-off last row means a broken download"
                problems.add(_bad_row("number of columns", place, found, expected, fix))
                continue
            try:
                word = head.decode("utf-8")
            except UnicodeDecodeError:
                found, fix = f"a word that is not UTF-8: {head[:40]!r}", "convert the file to UTF-8, or use repair"
                problems.add(_bad_row("encoding", place, found, "UTF-8", fix))
                continue
            if not word:
                found, expected = "numbers without a word", "a word, then its numbers"
                problems.add(_bad_row("no word", place, found, expected, "remove the row, or read with repair"))
                continue
            yield line, word, numbers
        if self.declared is not None and limit is None and seen != self.declared:
            found = f"the first line says {self.declared:,} rows, the file has {seen:,}"
            fix = "fetch the file again if it was cut off, or correct its first line"
            place, repair = f"{self.path}:1", "the rows in the file are used"
            problems.add(Problem("number of rows", place, found, fix=fix, repair=repair))


def parse_rows(
    rows: Sequence[tuple[int, str, bytes]], file: VectorFile, problems: Problems
) -> tuple[npt.NDArray[np.float32], list[str]]:
    """The matrix [good rows, dim] of some rows, and the words whose rows are left out."""
    flat = _numbers(b" ".join(numbers for _, _, numbers in rows))
    if flat.size == len(rows) * file.dim:
        matrix = flat.reshape(len(rows), file.dim)
    else:  # something is not a number: parse row by row and mark bad rows with NaN
        matrix = np.full((len(rows), file.dim), np.nan, dtype=np.float32)
        for i, (_, _, numbers) in enumerate(rows):
            one = _numbers(numbers)
            if one.size == file.dim:
                matrix[i] = one
    good = np.isfinite(matrix).all(axis=1)
    bad = []
    for i in np.flatnonzero(~good).tolist():
        line, word, numbers = rows[i]
        culprit = next((part for part in numbers.split(b" ") if not _is_finite(part)), numbers)
        found = f"'{culprit[:40].decode('utf-8', 'replace')}' in the vector of '{word}'"
        fix = "correct or remove the row, or read with repair"
        problems.add(_bad_row("not a number", f"{file.path}:{line}", found, "finite numbers", fix))
        bad.append(word)
    return (matrix[good] if bad else matrix), bad


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines without line ends; blank lines are skipped."""
    try:
        with _open(path) as file:
            for number, line in enumerate(file, 1):
                line = line.rstrip(b" \t\r\n")
                if number == 1:
                    line = line.removeprefix(BOM)
                if line:
                    yield number, line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"the gzipped file is broken ({error})", place=str(path), fix="fetch the file again") from error
    except OSError as error:
        raise DataError(
            f"the file cannot be read ({error.strerror or error})", place=str(path), fix="check the path"
        ) from error


def _open(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == ZIP:
        raise DataError("this is a zip archive", place=str(path), fix="unpack it and name a file in it")
    if magic.startswith(GZIP):
        return cast(BinaryIO, io.BufferedReader(TextBytes(path, packed=True), 1 << 16))
    return path.open("rb")


def _numbers(text: bytes) -> npt.NDArray[np.float32]:
    """The numbers of a text; none if a part of it is no number."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # older numpy warns, and reads 4 from "4,5"
        try:
            return np.fromstring(text, dtype=np.float32, sep=" ")
        except (ValueError, DeprecationWarning):
            return np.empty(0, dtype=np.float32)


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_finite(text: bytes) -> bool:
    return _is_number(text) and abs(float(text)) <= float(np.finfo(np.float32).max)


def _bad_row(kind: str, place: str, found: str, expected: str, fix: str) -> Problem:
    return Problem(kind, place, found, expected, fix, repair="the row is left out")
