"""Records by key in a file that only grows: what was confirmed once survives a crash, a restart and a full disk."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nershift.errors import CheckpointError, StorageError
from nershift.server.refusals import cannot_write
from nershift.storage import write_bytes

_SLACK = 4_000_000  # bytes of replaced records that a file may hold before it is written anew
Record = Mapping[str, Any]


class _Entry(NamedTuple):
    """The latest record of a key; ``number`` counts all records of the log, ``text`` is its JSON."""

    number: int
    changed: int
    text: bytes

    def line(self) -> bytes:
        return b'{"number":%d,"record":%b}\n' % (self.number, self.text)


class RecordLog:
    """Of two records with one key the one that was ``changed`` later counts, whichever comes first.

    ``about`` stands in the first line of the file. A last line without an end was being written when the server
    died; nobody was told that it is kept, so it is dropped.
    """

    def __init__(self, path: Path, about: Record, key: Callable[[Record], str]) -> None:
        self._path, self._key, self._about = path, key, {"form": 1, **about}
        self._entries: dict[str, _Entry] = {}  # in the order in which the keys first came
        self.last = 0  # number of the latest record
        self.size = 0  # bytes of the records that count
        self._written = 0  # bytes of the file
        if path.exists():
            self._load()

    @staticmethod
    def about(path: Path) -> dict[str, Any]:
        """What the first line of a file says."""
        with open(path, "rb") as file:
            return _parsed(file.readline(), f"{path}:1")

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self._entries[key].text)
        return record

    def records(self) -> Iterator[dict[str, Any]]:
        """All records that count, in the order in which their keys first came."""
        return (json.loads(entry.text) for entry in self._entries.values())

    def since(self, number: int, most: int) -> tuple[list[bytes], int]:
        """JSON of the records after a number, about ``most`` bytes of it, and the number up to which this is all."""
        chosen: list[bytes] = []
        for entry in sorted(entry for entry in self._entries.values() if entry.number > number):
            if most <= 0:
                return chosen, number
            chosen.append(entry.text)
            number, most = entry.number, most - len(entry.text)
        return chosen, self.last

    def merge(self, records: Iterable[Record]) -> None:
        """Keep those of the records that are later than what is kept.

        Raises:
            Refusal: the file cannot be written (507); then none is kept.
        """
        news: dict[str, _Entry] = {}
        for record in records:
            key = self._key(record)
            before = news.get(key) or self._entries.get(key)
            if before is None or record["changed"] > before.changed:
                news.pop(key, None)
                news[key] = _Entry(self.last + len(news) + 1, record["changed"], _json(record))
        if not news:
            return
        lines = b"".join(entry.line() for entry in news.values())
        try:
            if not self._written or self._written + len(lines) > 2 * self.size + _SLACK:
                self._write_anew()
            self._append(lines)
        except (OSError, StorageError) as error:
            raise cannot_write(error) from None
        for key, entry in news.items():
            self._keep(key, entry)

    def _keep(self, key: str, entry: _Entry) -> None:
        before = self._entries.get(key)
        self.size += len(entry.text) - (len(before.text) if before else 0)
        self._entries[key] = entry
        self.last = max(self.last, entry.number)

    def _append(self, lines: bytes) -> None:
        with open(self._path, "r+b") as file:
            try:
                file.seek(self._written)
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.truncate(self._path, self._written)
                raise
        self._written += len(lines)

    def _write_anew(self) -> None:
        lines = (entry.line() for entry in self._entries.values())
        data = b"".join((_json(self._about) + b"\n", *lines))
        write_bytes(self._path, data)
        self._written = len(data)

    def _load(self) -> None:
        data = self._path.read_bytes()
        self._written = data.rfind(b"\n") + 1
        for number, line in enumerate(data[: self._written].split(b"\n")[1:-1], 2):
            place = f"{self._path}:{number}"
            row = _parsed(line, place)
            try:
                entry = _Entry(int(row["number"]), int(row["record"]["changed"]), _json(row["record"]))
                self._keep(self._key(row["record"]), entry)
            except (KeyError, TypeError, ValueError):
                raise _damaged(place) from None
        if self._written < len(data):
            os.truncate(self._path, self._written)


def _json(value: Record) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _parsed(line: bytes, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise _damaged(place)
    return row


def _damaged(place: str) -> CheckpointError:
    fix = "restore the file, or remove the line: the browser that has it sends it again when it is changed"
    return CheckpointError("not a record of this server", place=place, fix=fix)
