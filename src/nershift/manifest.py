"""The list of a model's files with sizes and hashes: what was damaged or mixed up is noticed before it is used."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from nershift.errors import CheckpointError
from nershift.parsing import parse_json
from nershift.storage import write_text

MANIFEST = "manifest.json"
_FORMAT = 1
_CHUNK = 1 << 20
_HOW = (
    "copy the folder again, or train again; "
    "to load it all the same: --no-verify of the command, in Python verify=False; or delete the list"
)


@contextmanager
def manifested(folder: Path) -> Iterator[None]:
    """Whatever is written into the folder meanwhile is one model: in the end it gets a manifest.

    What was there before and was not touched is none of its files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before = _stamps(folder)
    yield
    write_manifest(folder, (path for path, stamp in _stamps(folder).items() if before.get(path) != stamp))


def write_manifest(folder: Path, files: Iterable[Path]) -> None:
    """Write the manifest of some files of a folder. They reach the disk before it does."""
    rows = {}
    for path in sorted(files):
        with open(path, "rb") as file, suppress(OSError):  # not every system does it for a file that is only read
            os.fsync(file.fileno())
        rows[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": sha256(path)}
    write_text(folder / MANIFEST, json.dumps({"format": _FORMAT, "files": rows}, indent=1, ensure_ascii=False))


def check_files(folder: Path) -> None:
    """Check every file of the manifest. Folders of versions before 0.2 have none, and are not checked.

    Raises:
        CheckpointError: a file is missing, or is not as it was written.
    """
    if not os.path.lexists(folder / MANIFEST):
        return
    for name, row in _read(folder / MANIFEST).items():
        path = folder / name
        if not path.is_file():
            found = "is missing"
        elif path.stat().st_size != row.get("bytes"):
            found = f"has {path.stat().st_size} bytes, not {row.get('bytes')} as it was written"
        elif sha256(path) != row.get("sha256"):
            found = "is not as it was written (another sha256)"
        else:
            continue
        raise CheckpointError(found, place=str(path), expected=f"what {MANIFEST} says", fix=_HOW)


def sha256(*paths: Path) -> str:
    """The hash of files, one after the other."""
    hashed = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                hashed.update(chunk)
    return hashed.hexdigest()


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
        files = content["files"]
        if content["format"] == _FORMAT and all(_inside(name) and isinstance(files[name], dict) for name in files):
            return dict(files)
        found = "is not the list of a model's files"
    except (OSError, ValueError, KeyError, TypeError) as error:
        found = f"cannot be read ({type(error).__name__}: {error})"
    raise CheckpointError(found, place=str(path), expected="what nershift wrote there", fix=_HOW)


def _inside(name: str) -> bool:
    """Does a name stay in the folder?"""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _stamps(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """What changes when a file is written, for each file but the manifest."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and path != folder / MANIFEST:
            told = path.stat()
            found[path] = (told.st_ino, told.st_mtime_ns, told.st_size)
    return found
