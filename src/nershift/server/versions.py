"""Versions of a tagger on disk: each is a folder that never changes; `current.json` names the one that serves."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nershift.data.formats import jsonl
from nershift.data.problems import Problems
from nershift.data.spans import Sentence
from nershift.errors import CheckpointError
from nershift.folder_lock import FolderLock
from nershift.model_store import load_model, save_model
from nershift.server.refusals import Refusal
from nershift.server.version_folder import (
    F1_FILE,
    FIRST,
    INFO_FILE,
    LABELS_FILE,
    Version,
    digest,
    find_versions,
    open_tagger,
    read_json,
)
from nershift.storage import clear_leftovers, sync_folder, write_text
from nershift.tagger.tagger import Tagger


class Store:
    """All versions of one tagger in one folder.

    ``v1`` is a copy of the model the server was started with. A new version is written under a temporary name
    and moved into place whole, so a crash leaves either all of it or nothing, and a restart finds what was there.
    Names that requests bring are looked up here and never become part of a path themselves.
    """

    def __init__(self, folder: Path, model: Path, most_loaded: int = 3, verify: bool = True) -> None:
        self.folder, self._most_loaded, self.verify = folder, most_loaded, verify
        self._changing = threading.Lock()
        self._taggers: OrderedDict[str, Tagger | None] = OrderedDict()
        origin = digest(model)
        self._held = FolderLock(folder, "another server", "stop it, or name another with --store")
        try:
            self._open(model, origin)
        except BaseException:
            self._held.release()
            raise

    def _open(self, model: Path, origin: str) -> None:
        folder = self.folder
        clear_leftovers(folder)
        self._versions = {version.name: version for version in find_versions(folder)}
        self._f1 = {name: f1 for name in self._versions if (f1 := read_json(folder / name / F1_FILE))}
        if FIRST not in self._versions:
            self._begin(model, origin)
        elif self._versions[FIRST].origin != origin:
            raise CheckpointError(
                "holds versions of another model",
                place=str(folder),
                expected=f"versions that began with {model}",
                fix="name another folder with --store, or start with the model these versions began with",
            )
        named = read_json(folder / "current.json").get("name")
        self.current = named if named in self._versions else FIRST

    def _begin(self, model: Path, origin: str) -> None:
        loaded, meta = load_model(model, self.verify)
        folder = self.new_folder(FIRST)
        save_model(folder, loaded, meta)
        tagger = open_tagger(folder)
        labels = tagger.types if tagger else ()
        self.add(Version(FIRST, tuple(labels), str(meta.get("method", "")), origin=origin), ())

    def close(self) -> None:
        self._held.release()

    # -- what is there -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._versions)

    def find(self, name: str | None = None) -> Version:
        """The version called ``name``, or the current one.

        Raises:
            Refusal: there is none.
        """
        version = self._versions.get(self.current if name is None else name)
        if version is None:
            raise Refusal(404, "unknown", "there is no such version", "GET /models lists them")
        return version

    def path(self, name: str) -> Path:
        return self.folder / self.find(name).name

    def labels(self, name: str) -> list[Sentence]:
        """The labelled sentences that a version has learned from here."""
        path = self.path(name) / LABELS_FILE
        return jsonl.read(path, Problems()) if path.exists() else []

    def describe(self) -> dict[str, Any]:
        rows = [asdict(v) | {"labels": list(v.labels), "f1": self._f1.get(v.name)} for v in [*self._versions.values()]]
        return {"current": self.current, "versions": [{k: row[k] for k in row if k != "origin"} for row in rows]}

    def tagger(self, name: str) -> Tagger | None:
        """The tagger of a version, from memory if it was used lately; None where it has only been pretrained."""
        with self._changing:
            if name in self._taggers:
                self._taggers.move_to_end(name)
                return self._taggers[name]
        tagger = open_tagger(self.path(name), self.verify)
        with self._changing:
            self._taggers[name] = tagger
            while len(self._taggers) > max(self._most_loaded, 2):
                del self._taggers[next(n for n in self._taggers if n not in (self.current, name))]
        return tagger

    # -- what changes ------------------------------------------------------------------------------------

    def choose(self, name: str) -> None:
        """Let a version serve from now on, also after a restart."""
        version = self.find(name)
        self.tagger(version.name)  # fails here, before a broken version becomes current
        write_text(self.folder / "current.json", json.dumps({"name": version.name}))
        self.current = version.name

    def next_name(self) -> str:
        return f"v{max((int(name[1:]) for name in self._versions), default=0) + 1}"

    def new_folder(self, name: str) -> Path:
        """An empty folder to write a version into before :meth:`add`; leftovers of a crash are removed."""
        folder = self.folder / f".{name}.tmp"
        folder.mkdir()
        return folder

    def add(self, version: Version, labels: Sequence[Sentence]) -> None:
        """Move the new folder of a finished version into place; from then on it never changes."""
        folder = self.folder / f".{version.name}.tmp"
        open_tagger(folder)  # fails here, before a broken folder becomes a version
        if labels:
            jsonl.write(folder / LABELS_FILE, labels)
        write_text(folder / INFO_FILE, json.dumps(asdict(version), ensure_ascii=False))
        folder.rename(self.folder / version.name)
        sync_folder(self.folder)
        self._versions[version.name] = version

    def add_score(self, name: str, f1: Mapping[str, Any]) -> None:
        """Keep the cross-validated F1 of a version beside its tagger."""
        write_text(self.path(name) / F1_FILE, json.dumps(dict(f1)))
        self._f1[name] = dict(f1)
