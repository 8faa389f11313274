"""The process that adapts: ``python -m nershift.server.work JOB.json``, one JSON line per message.

It is a separate process so that training does not slow down answers, a crash in it does no harm, and it can be
stopped at any moment. It ends when its standard input closes, that is, when the server is gone.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nershift.data.formats import jsonl
from nershift.data.problems import Problems
from nershift.data.spans import Sentence
from nershift.errors import NershiftError, StorageError
from nershift.manifest import check_files


def main(job_file: Path) -> int:
    news = sys.stdout
    sys.stdout = sys.stderr  # what a library prints is not a message
    threading.Thread(target=_end_with_server, daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(5)  # answers come first
    job = json.loads(job_file.read_text(encoding="utf-8"))

    def say(state: str = "", progress: float = 0.0, message: str = "", **more: Any) -> None:
        line = {"state": state, "progress": round(progress, 3), "message": message, **more}
        news.write(json.dumps(line) + "\n")
        news.flush()

    try:
        _adapt(job, say)
    except NershiftError as error:
        say(failed=str(error))
        return 1
    except OSError as error:  # a full disk, for one, which a library met
        say(failed=str(StorageError.of(error, job["out"])))
        return 1
    return 0


def _adapt(job: dict[str, Any], say: Callable[..., None]) -> None:
    from nershift.server.learning import cross_validate, learn

    base, scratch, seconds = Path(job["base"]), Path(job["scratch"]), float(job["seconds"])
    if job["verify"]:
        check_files(base)  # once, for all the times that it is loaded
    sentences = jsonl.read(Path(job["labels"]), Problems())
    tagger = learn(base, sentences, scratch / "all", seconds, lambda p, m: say("training", p, m))
    tagger.save(Path(job["out"]))
    say(ready=list(tagger.types), method=str(tagger.meta.get("method", "")))
    if job["cross_validate"]:
        f1 = cross_validate(base, sentences, scratch, seconds, lambda p, m: say("validating", p, m))
        say(f1=f1)
    if job["fit_minutes"] and len(sentences) >= job["fit_from"]:
        _race(job, base, sentences, say)


def _race(job: dict[str, Any], base: Path, sentences: Sequence[Sentence], say: Callable[..., None]) -> None:
    """The labels are enough to judge other recipes on: a better one makes a version of its own."""
    from nershift.server.racing import race

    began = time.monotonic()

    def tell(line: str) -> None:
        share = (time.monotonic() - began) / (60 * job["fit_minutes"])
        say("comparing", min(share, 0.99), line.strip()[:200] or "comparing recipes")

    chosen = race(base, sentences, Path(job["scratch"]) / "fit", float(job["fit_minutes"]), tell)
    if chosen is not None:
        types, expected = list(chosen.tagger().types), chosen.facts["expected"]
        f1 = (
            None
            if expected is None
            else {"mean": round(expected["value"], 4), "sd": None, "folds": chosen.facts["plan"]["trials"]}
        )
        say(
            better=types,
            folder=str(chosen.folder),
            method=str(chosen.run.metrics["method"]),
            recipe=chosen.winner,
            f1=f1,
        )


def _end_with_server() -> None:
    sys.stdin.read()
    os._exit(3)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
