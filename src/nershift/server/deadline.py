"""A watch over a process that should say something now and then, and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Deadline:
    """Calls ``late(why)`` once: after too long a silence, or when all the time is over.

    Args:
        silence: the longest time between two calls of :meth:`heard`, in seconds.
        whole: from the start to :meth:`stop`.
    """

    def __init__(self, silence: float, whole: float, late: Callable[[str], None]) -> None:
        self._silence, self._late = silence, late
        self._whole, self._over = whole, time.monotonic() + whole
        self._last = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def heard(self) -> None:
        self._last = time.monotonic()

    def stop(self) -> None:
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(min(self._last + self._silence, self._over) - time.monotonic()):
            now = time.monotonic()
            if now >= self._over:
                self._late(f"it was not done after {self._whole:g} s")
                return
            if now >= self._last + self._silence:
                self._late(f"it said nothing for {self._silence:g} s")
                return
