"""Reading files: UTF-8 text, gzip by suffix, the line ends of every system, byte order marks."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nershift.data.formats.unpack import gunzip
from nershift.data.problems import Problems
from nershift.errors import DataError

MARK = "\ufeff"  # the byte order mark
_WIDE = {"utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)}


def read_text(path: Path, problems: Problems) -> str:
    """The text of a file, decompressed, without a byte order mark; empty or wrongly encoded is a problem.

    In a file without any line feed the carriage returns are line ends, and become line feeds.
    """
    data = read_bytes(path)
    encoding = next((name for name, marks in _WIDE.items() if data.startswith(marks)), "utf-8-sig")
    text = _decode(data, path, problems) if encoding == "utf-8-sig" else _decode_wide(data, encoding, path, problems)
    if "\r" in text and "\n" not in text:
        text = text.replace("\r", "\n")
    if not text.strip(" \t\r\n"):
        problems.report(
            "empty file",
            f"{path}:1",
            "the file has no content",
            expected="at least one sentence",
            fix="check how the file was exported",
            repair="read as no sentences",
        )
    return text


def _decode(data: bytes, path: Path, problems: Problems) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.report(
            "encoding",
            f"{path}:{line}",
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            expected="text encoded as UTF-8",
            fix=f"convert it, for example: iconv -f latin1 -t utf-8 {path.name}",
            repair="unreadable bytes replaced by U+FFFD",
        )
        return data.decode("utf-8-sig", errors="replace")


def _decode_wide(data: bytes, encoding: str, path: Path, problems: Problems) -> str:
    problems.report(
        "encoding",
        f"{path}:1",
        f"the file begins with the byte order mark of {encoding.upper()}",
        expected="text encoded as UTF-8",
        fix=f"convert it, for example: iconv -f {encoding} -t utf-8 {path.name}",
        repair=f"read as {encoding.upper()}, unreadable bytes replaced by U+FFFD",
    )
    return data.decode(encoding, errors="replace")


def read_bytes(path: Path) -> bytes:
    with reading(path):
        return gunzip(path) if path.suffix == ".gz" else path.read_bytes()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What goes wrong while a file is opened, read or decompressed becomes an error that names it."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"the file cannot be unpacked ({error})",
            place=str(path),
            expected="a complete gzip file",
            fix="copy it again, or remove .gz from its name if it is not compressed",
        ) from None
    except FileNotFoundError:
        raise DataError("there is no such file", place=str(path), fix="check the path") from None
    except OSError as error:
        raise DataError(f"the file cannot be read ({error.strerror})", place=str(path)) from None


def head_of(path: Path, size: int = 1 << 16) -> str:
    """The first characters of a file, enough to tell its format."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(size).decode("utf-8-sig", errors="ignore")
    except (OSError, EOFError, zlib.error):
        return ""  # reading the whole file reports what is wrong


def has_returns_alone(path: Path) -> bool:
    """Do carriage returns without line feeds end the lines of a file, as far as its beginning tells?"""
    head = head_of(path)
    return "\r" in head and "\n" not in head


def lines_of(text: str) -> list[str]:
    """Split at line feeds only: U+2028, U+0085 and the like are ordinary characters inside a token.

    A byte order mark at the start of a line comes from a file that was appended to another, and is dropped.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if MARK in text:
        lines = [line.removeprefix(MARK) for line in lines]
    return [line.rstrip("\r") for line in lines] if "\r" in text else lines


def words_of(line: str) -> list[str]:
    """The tokens of a line of raw text: what spaces, tabs and stray carriage returns separate."""
    return [word for word in line.replace("\t", " ").replace("\r", " ").split(" ") if word]


def report_returns(lines: list[str], path: Path, problems: Problems) -> list[str]:
    """The lines, split at carriage returns inside them: files with different line ends have been joined."""
    if not any("\r" in line for line in lines):
        return lines
    out: list[str] = []
    for number, line in enumerate(lines, 1):
        if "\r" in line:
            problems.report(
                "line end",
                f"{path}:{number}",
                f"a carriage return inside a line: {line[:80]!r}",
                expected="the same line end in the whole file",
                fix="write all lines with line feeds, for example: tr '\\r' '\\n'",
                repair="read as a line end",
            )
        out += line.split("\r")
    return out
