"""Reading files: UTF-8 text, gzip by suffix, line feeds as the only line ends."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nershift.data.problems import Problems
from nershift.errors import DataError


def read_text(path: Path, problems: Problems) -> str:
    """The text of a file, decompressed, without a byte order mark; empty or wrongly encoded is a problem."""
    data = read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
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
        text = data.decode("utf-8-sig", errors="replace")
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


def read_bytes(path: Path) -> bytes:
    with reading(path):
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data


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


def lines_of(text: str) -> list[str]:
    """Split at line feeds only: U+2028, U+0085 and the like are ordinary characters inside a token."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line[:-1] if line.endswith("\r") else line for line in lines] if "\r" in text else lines
