"""The folder of one version: a tagger, what is told of it, and the labels it has learned from."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from nershift.errors import CheckpointError
from nershift.model_store import load_model
from nershift.tagger.tagger import TARGET, Tagger

FIRST = "v1"
INFO_FILE, LABELS_FILE, F1_FILE = "version.json", "labels.jsonl", "f1.json"
_NAME = re.compile(r"v[1-9][0-9]{0,5}")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Version:
    """What is told of a version; ``sentences`` counts the labelled sentences it has learned from here."""

    name: str
    labels: tuple[str, ...]
    method: str
    created: str
    parent: str | None = None
    note: str = ""
    sentences: int = 0
    origin: str = ""  # of the first version: a hash of the model it was copied from

    @classmethod
    def now(cls, name: str, labels: Sequence[str], method: str, **more: Any) -> Version:
        created = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return cls(name, tuple(labels), method, created, **more)


def find_versions(folder: Path) -> Iterator[Version]:
    """All complete versions in a folder, oldest first; what is damaged stops the server before it starts."""
    names = [p.name for p in folder.iterdir() if _NAME.fullmatch(p.name) and p.is_dir()]
    for name in sorted(names, key=lambda n: int(n[1:])):
        path = folder / name / INFO_FILE
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            version = Version(**{**told, "labels": tuple(told["labels"])})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"not the description of a version ({error})",
                place=str(path),
                fix=f"restore it, or move {folder / name} away",
            ) from None
        if version.name != name:
            raise CheckpointError(f"describes '{version.name}'", place=str(path), expected=f"'{name}'")
        yield version


def open_tagger(folder: Path) -> Tagger | None:
    """The tagger in a folder; None for a model that was pretrained on several label spaces and has no target yet."""
    model, meta = load_model(folder)
    keys = [key for key, _ in model.named_heads()]
    if TARGET in keys:
        return Tagger(model, meta)
    return Tagger(model, meta, key=keys[0]) if len(keys) == 1 else None


def read_json(path: Path) -> dict[str, Any]:
    """A small JSON object, empty where there is none or it cannot be read."""
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def digest(model: Path) -> str:
    """A hash of a model's description and weights."""
    made = hashlib.sha256()
    for name in ("model.json", "model.safetensors"):
        try:
            with open(model / name, "rb") as file:
                while chunk := file.read(_CHUNK):
                    made.update(chunk)
        except OSError:
            raise CheckpointError(
                f"has no {name}",
                place=str(model),
                expected="the folder of a finished run or of a pre-training",
                fix="nershift transfer … --out DIR, then nershift serve --model DIR",
            ) from None
    return made.hexdigest()


class FolderLock:
    """One server a folder: a second one is refused. The system lets go of the lock when a process dies."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise CheckpointError(
                f"cannot be written ({error.strerror})",
                place=str(folder),
                fix="name another folder with --store",
            ) from None
        try:
            import fcntl
        except ImportError:  # not on this system: two servers on one folder are the operator's to avoid
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise CheckpointError(
                "another server uses this folder",
                place=str(folder),
                fix="stop it, or name another with --store",
            ) from None

    def release(self) -> None:
        with suppress(OSError):
            os.close(self._file)
