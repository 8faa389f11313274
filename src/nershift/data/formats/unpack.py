"""Compressed files: a small one can stand for more than fits any memory, so what comes out of it has a limit."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nershift.errors import ConfigError, DataError

VARIABLE = "NERSHIFT_UNPACKED_MB"
_DEFAULT = 1_000
_PIECE = 1 << 20  # bytes
_DENSEST = 200  # times: text is packed into a twentieth at best, a bomb into a thousandth


def most_unpacked() -> int:
    """Bytes that may come out of one file that is read into memory."""
    text = os.environ.get(VARIABLE, "").strip() or str(_DEFAULT)
    if not (text.isdecimal() and len(text) < 10 and int(text)):
        raise ConfigError(f"found '{text}'", place=VARIABLE, expected=f"a number of megabytes, such as {_DEFAULT}")
    return int(text) * 1_000_000


def gunzip(path: Path) -> bytes:
    """All that is in a gzip file."""
    most, out = most_unpacked(), io.BytesIO()
    with gzip.open(path) as file:
        while part := file.read(_PIECE):
            if out.tell() + len(part) > most:
                raise _too_much(path, most)
            out.write(part)
    return out.getvalue()


def zlib_streams(data: bytes, path: Path) -> Iterator[bytes]:
    """The zlib streams that stand one after the other in ``data``, still compressed."""
    most, size = most_unpacked(), 0
    while data:
        unpack, rest = zlib.decompressobj(), data
        while not unpack.eof:
            size += (got := len(unpack.decompress(rest, _PIECE)))
            rest = unpack.unconsumed_tail
            if size > most:
                raise _too_much(path, most)
            if not (got or rest or unpack.eof):
                raise zlib.error("its end is missing")
        yield data[: len(data) - len(unpack.unused_data)]
        data = unpack.unused_data


class TextBytes(io.RawIOBase):
    """The bytes of a text of any length, unpacked, with line feeds where old files have carriage returns alone.

    A packed text may be longer than what is read into memory, unless it is denser than text can be.
    """

    def __init__(self, path: Path, packed: bool, returns: bool = False) -> None:
        super().__init__()
        self._path, self._returns, self._size = path, returns, 0
        self._most = max(most_unpacked(), _DENSEST * path.stat().st_size) if packed else 0
        self._file: Any = gzip.open(path) if packed else path.open("rb")  # noqa: SIM115 - closed with the object

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        part = self._file.read(len(buffer))
        self._size += len(part)
        if self._most and self._size > self._most:
            raise _too_much(self._path, self._most)
        buffer[: len(part)] = part.replace(b"\r", b"\n") if self._returns else part
        return len(part)

    def close(self) -> None:
        if hasattr(self, "_file"):  # a file that could not be opened is closed too, by the garbage collector
            self._file.close()
        super().close()


def _too_much(path: Path, most: int) -> DataError:
    return DataError(
        f"more than {most // 1_000_000:,} MB come out of this compressed file",
        place=str(path),
        expected="a corpus of a size that can be read",
        fix=f"if it is one, set {VARIABLE} to more megabytes, or unpack the file",
    )
