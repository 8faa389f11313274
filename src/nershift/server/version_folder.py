"""The folder of one version: a tagger, its description, and the labels it has learned from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from nershift.errors import CheckpointError
from nershift.manifest import sha256
from nershift.model_store import load_model
from nershift.tagger.tagger import TARGET, Tagger

FIRST = "v1"
INFO_FILE, LABELS_FILE, F1_FILE = "version.json", "labels.jsonl", "f1.json"
_NAME = re.compile(r"v[1-9][0-9]{0,5}")


@dataclass(frozen=True)
class Version:
    """The description of a version; ``sentences`` counts the labelled sentences it has learned from."""

    name: str
    labels: tuple[str, ...]
    method: str
    created: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))
    parent: str | None = None
    note: str = ""
    sentences: int = 0
    origin: str = ""  # of the first version: a hash of the model it was copied from


def find_versions(folder: Path) -> Iterator[Version]:
    """All complete versions in a folder, oldest first; a damaged one keeps the server from starting."""
    names = [p.name for p in folder.iterdir() if _NAME.fullmatch(p.name) and p.is_dir()]
    for name in sorted(names, key=lambda n: int(n[1:])):
        path = folder / name / INFO_FILE
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
            version = Version(**{**entry, "labels": tuple(entry["labels"])})
        except (OSError, ValueError, KeyError, TypeError) as error:
            found, fix = f"not the description of a version ({error})", f"restore it, or move {folder / name} away"
            raise CheckpointError(found, place=str(path), fix=fix) from None
        if version.name != name:
            raise CheckpointError(f"describes '{version.name}'", place=str(path), expected=f"'{name}'")
        yield version


def open_tagger(folder: Path, verify: bool = True) -> Tagger | None:
    """The tagger in a folder; None for a model that was pretrained on several label spaces and has no target yet."""
    model, meta = load_model(folder, verify)
    keys = [key for key, _ in model.named_heads()]
    if TARGET in keys:
        return Tagger(model, meta)
    return Tagger(model, meta, key=keys[0]) if len(keys) == 1 else None


def read_json(path: Path) -> dict[str, Any]:
    """A small JSON object; empty if the file is missing or unreadable."""
    with suppress(OSError, ValueError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict):
            return content
    return {}


def digest(model: Path) -> str:
    """A hash of a model's description and weights."""
    files = [model / name for name in ("model.json", "model.safetensors")]
    for path in files:
        if not path.is_file():
            raise CheckpointError(
                f"has no {path.name}",
                place=str(model),
                expected="the folder of a finished run or of a pre-training",
                fix="nershift transfer … --out DIR, then nershift serve --model DIR",
            )
    return sha256(*files)
