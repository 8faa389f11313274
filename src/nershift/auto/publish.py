"""Finished trainings as what users keep: a run folder, with further voters below it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from nershift.folder_lock import LOCK_FILE
from nershift.storage import replace_file, write_text
from nershift.tagger.ensemble import VOTERS_FILE

_OURS = ("work", "voters", "state")  # folders that belong to a fit, or to a training, and not to a tagger
_LAST = ("model.json", "manifest.json", "metrics.json")  # with these a folder is complete


def publish(out: Path, runs: Sequence[Path]) -> None:
    """Copy finished runs into ``out``, in place of what was there: the first as its own, the others as voters.

    Whoever loads the folder meanwhile finds the old tagger, the new one, or none: never half of each.
    """
    (out / VOTERS_FILE).unlink(missing_ok=True)
    shutil.rmtree(out / "voters", ignore_errors=True)
    _copy(runs[0], out)
    names = []
    for number, run in enumerate(runs[1:], start=2):
        names.append(f"voters/{number}")
        _copy(run, out / names[-1])
    if names:
        write_text(out / VOTERS_FILE, json.dumps({"voters": [".", *names]}))


def _copy(run: Path, out: Path) -> None:
    for name in _LAST:
        (out / name).unlink(missing_ok=True)
    for old in [path for path in out.glob("*") if path.is_dir() and path.name not in _OURS]:
        shutil.rmtree(old)
    files = [path.relative_to(run) for path in run.rglob("*") if path.is_file() and path.name != LOCK_FILE]
    files = [path for path in files if path.parts[0] not in _OURS]
    files.sort(key=lambda path: (_LAST.index(path.name) + 1 if path.name in _LAST else 0, path))
    for path in files:
        replace_file(out / path, partial(shutil.copyfile, run / path))
