"""A process that does one job of `nershift fit` after the other: ``python -m nershift.auto.worker THREADS``.

It reads a JSON line for each job and answers with one. It ends when its standard input closes, that is, when whoever
started it is gone; what a job had reached stays in its folder.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from typing import Any

from nershift.auto.jobs import Job, run
from nershift.errors import NershiftError


def main(threads: int) -> int:
    import torch

    answers = sys.stdout
    sys.stdout = sys.stderr  # what a library prints is no answer
    torch.set_num_threads(threads)
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    while True:
        job = Job.from_dict(json.loads(lines.get()))
        answers.write(json.dumps({"job": job.name, **_answer(job)}) + "\n")
        answers.flush()


def _answer(job: Job) -> dict[str, Any]:
    try:
        return run(job)
    except NershiftError as error:
        return {"failed": str(error)}
    except Exception as error:  # one recipe that fails must not end the others
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0], "device_lost": device_lost(error)}


def device_lost(error: BaseException) -> bool:
    """Did the GPU fail in a way after which this process cannot use it? Too little memory is no such failure."""
    import torch

    if isinstance(error, torch.OutOfMemoryError):
        return False
    accelerator = getattr(torch, "AcceleratorError", ())  # newer than the oldest torch
    return isinstance(error, accelerator) or (isinstance(error, RuntimeError) and "CUDA error" in str(error))


def _read(lines: queue.Queue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
