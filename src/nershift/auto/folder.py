"""The folder of a fit: new, or one to go on with; the trials lie in `work` until the fit is finished."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nershift.errors import CheckpointError, OtherRunError
from nershift.storage import write_text

FIT = "fit.json"
_ASKED, _PLAN, _SPENT = "asked.json", "plan.json", "spent.json"


class FitFolder:
    """Where a fit lives.

    Args:
        asked: what decides its result; a folder that holds another fit is refused.

    Raises:
        OtherRunError: the folder holds something else.
    """

    def __init__(self, path: Path, asked: Mapping[str, Any], overwrite: bool) -> None:
        self.path, self.work = path, path / "work"
        ours = any((place).exists() for place in (path / FIT, self.work / _ASKED))
        if overwrite and ours:
            shutil.rmtree(path)
        elif path.exists() and any(path.iterdir()) and not ours:
            raise CheckpointError("is not empty and holds no fit", place=str(path), fix="choose another --out")
        before = self._read(self.work / _ASKED) or self._read(path / FIT).get("asked")
        if before is not None and before != json.loads(json.dumps(asked)):
            changed = sorted(k for k in {*before, *asked} if before.get(k) != asked.get(k))
            raise OtherRunError(
                f"holds a fit of other data or settings: {', '.join(changed)}",
                place=str(path),
                fix="choose another --out, or --overwrite to delete the old fit",
            )
        self.finished = bool(self._read(path / FIT).get("finished"))
        if not self.finished:
            write_text(self.work / _ASKED, json.dumps(asked))

    @property
    def plan(self) -> dict[str, Any] | None:
        """The plan of a fit that was interrupted."""
        return self._read(self.work / _PLAN) or None

    def keep_plan(self, plan: Mapping[str, Any]) -> None:
        write_text(self.work / _PLAN, json.dumps(plan))

    @property
    def spent(self) -> float:
        """Seconds that earlier calls have used."""
        return float(self._read(self.work / _SPENT).get("seconds", 0.0))

    def spend(self, seconds: float) -> None:
        write_text(self.work / _SPENT, json.dumps({"seconds": round(seconds, 1)}))

    def finish(self) -> None:
        """Nothing is left to go on with."""
        shutil.rmtree(self.work, ignore_errors=True)

    @staticmethod
    def _read(path: Path) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            read = json.loads(path.read_text(encoding="utf-8"))
            return read if isinstance(read, dict) else {}
        return {}
