"""The queue of files: what was uploaded, read into sentences, and kept until it is removed."""

from __future__ import annotations

import base64
import binascii
import errno
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

from nershift.errors import CheckpointError, DataError, StorageError
from nershift.server import limits
from nershift.server.annotations import key_of
from nershift.server.limits import Limits
from nershift.server.read_upload import DISK_FULL
from nershift.server.refusals import Refusal, cannot_write
from nershift.storage import clear_leftovers, write_text


@dataclass(frozen=True)
class QueueFile:
    """A file of the queue; ``labelled`` says that its sentences have entities of their own."""

    id: str
    name: str
    format: str
    labelled: bool
    sentences: int
    created: str
    keys: tuple[int, ...] = field(repr=False)  # hashes, in this process, of what names its sentences


class Uploads:
    """Files are kept as ``ID.json``, whole or not at all; their names stay inside them. One is read at a time."""

    def __init__(self, folder: Path, bounds: Limits) -> None:
        self._folder, self._bounds = folder, bounds
        self._changing = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None  # that reads a file
        folder.mkdir(parents=True, exist_ok=True)
        clear_leftovers(folder)
        files = (_described(json.loads(path.read_bytes()), path) for path in _kept(folder))
        self._files = {file.id: file for file in sorted(files, key=lambda file: (file.created, file.id))}

    def list(self) -> list[QueueFile]:
        return list(self._files.values())

    def find(self, name: str) -> QueueFile:
        """
        Raises:
            Refusal: there is none of this name.
        """
        if name not in self._files:
            raise Refusal(404, "unknown", "there is no such file in the queue", "GET /files lists them")
        return self._files[name]

    def content(self, name: str) -> bytes:
        """The JSON of a file with its sentences."""
        return (self._folder / f"{self.find(name).id}.json").read_bytes()

    def remove(self, name: str) -> None:
        """Take a file out of the queue; labels of its sentences stay."""
        with self._changing:
            (self._folder / f"{self.find(name).id}.json").unlink(missing_ok=True)
            del self._files[name]

    def add(self, parts: Sequence[tuple[str, str]], format: str | None) -> QueueFile:
        """Read an upload: (name, content in base64) of each file that belongs to it.

        Raises:
            Refusal: a name or the content cannot be used, or there is no room.
        """
        if len(self._files) >= limits.MOST_FILES:
            message = f"{limits.MOST_FILES} files are in the queue already"
            raise Refusal(413, "files", message, "remove one that is done")
        read = self._read(parts, format)
        about = {"id": f"f{uuid4().hex[:8]}", "name": parts[0][0], "created": _now(), **read}
        if len(parts) > 1:
            about["name"] = f"{parts[0][0]} and {len(parts) - 1} more"
        path = self._folder / f"{about['id']}.json"
        with self._changing:
            try:
                write_text(path, json.dumps(about, ensure_ascii=False, separators=(",", ":")))
            except StorageError as error:
                raise cannot_write(error) from None
            made = _described(about, path)
            self._files[made.id] = made
        return made

    def stop(self) -> None:
        """Read no further."""
        if self._process is not None:
            self._process.kill()

    def _read(self, parts: Sequence[tuple[str, str]], format: str | None) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="nershift-upload-") as scratch:
            folder, out = Path(scratch) / "sent", Path(scratch) / "read.json"
            try:
                folder.mkdir()
                for name, content in parts:
                    (folder / _file_name(name)).write_bytes(_decoded(name, content))
            except OSError as error:
                raise cannot_write(error) from None
            self._run(folder, out, format)
            read: dict[str, Any] = json.loads(out.read_bytes())
        if "error" in read:
            raise Refusal.of(DataError(**read["error"]))
        return read

    def _run(self, folder: Path, out: Path, format: str | None) -> None:
        bounds = self._bounds
        command = [sys.executable, "-m", "nershift.server.read_upload", str(folder), str(out), format or ""]
        environment = {**os.environ, "NERSHIFT_UNPACKED_MB": str(bounds.unpacked_mb), "OMP_NUM_THREADS": "1"}
        found = "reading this file took more memory than it may, or ended in a crash"
        with subprocess.Popen(
            [*command, str(bounds.read_bytes), str(bounds.read_seconds)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            self._process = process
            try:
                code = process.wait(bounds.read_seconds)
                if code == 0 and out.exists():
                    return
                if code == DISK_FULL:
                    raise cannot_write(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            except subprocess.TimeoutExpired:
                found = f"this file could not be read within {bounds.read_seconds:g} s"
            finally:
                process.kill()
                self._process = None
        raise Refusal(422, "unreadable", found, "see what `nershift check FILE` says; send a smaller file")


def _kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("f*.json"))


def _described(row: dict[str, Any], path: Path) -> QueueFile:
    try:
        rows = row["sentences"]
        keys = tuple(hash(key_of(sentence["tokens"])) for sentence in rows)
        return QueueFile(row["id"], row["name"], row["format"], row["labelled"], len(rows), row["created"], keys)
    except (KeyError, TypeError) as error:
        found = f"not a file of the queue ({type(error).__name__}: {error})"
        raise CheckpointError(found, place=str(path), fix="restore it, or move it away") from None


def describe(file: QueueFile, accepted: frozenset[int]) -> dict[str, Any]:
    """What is listed of a file, with how many of its sentences are among those accepted (hashes of keys)."""
    row = {name: value for name, value in asdict(file).items() if name != "keys"}
    return {**row, "accepted": sum(key in accepted for key in file.keys)}


def _file_name(name: str) -> str:
    """The name of a sent file; it never leads anywhere but into the folder that it is written to."""
    plain = name.replace("\\", "/").rpartition("/")[2]
    if plain.startswith(".") or not plain.isprintable() or not plain or len(plain.encode()) > 200:
        raise Refusal(422, "name", "a file has a name that cannot be used", "rename it, for example to notes.txt")
    return plain


def _decoded(name: str, content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(422, "content", f"the content of {name} is not in base64", "send it again") from None


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
