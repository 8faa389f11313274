"""Sentences longer than an encoder's window: overlapping windows from which each token is taken once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Window:
    """Tokens ``start:end`` are shown to the encoder, of which ``emit_start:emit_end`` are kept."""

    start: int
    end: int
    emit_start: int
    emit_end: int


def windows(lengths: Sequence[int], room: int, overlap: int) -> list[Window]:
    """Cut a sentence whose tokens have ``lengths`` sub-words into windows of at most ``room`` sub-words.

    Neighbouring windows share about ``overlap`` sub-words, and the border between what two windows emit lies
    in the middle of what they share, so that each token is taken where it has most context. A single token
    longer than ``room`` gets a window of its own (the caller cuts its sub-words).

    Example:
        >>> [(w.emit_start, w.emit_end) for w in windows([1] * 10, room=6, overlap=2)]
        [(0, 5), (5, 10)]
    """
    shown: list[tuple[int, int]] = []
    start = 0
    while True:
        end, used = start, 0
        while end < len(lengths) and (end == start or used + lengths[end] <= room):
            used += lengths[end]
            end += 1
        shown.append((start, end))
        if end >= len(lengths):
            break
        back, shared = end, 0
        while back - 1 > start and shared + lengths[back - 1] <= overlap:
            back -= 1
            shared += lengths[back]
        start = back
    borders = [0, *((b[0] + a[1] + 1) // 2 for a, b in pairwise(shown)), len(lengths)]
    return [Window(s, e, borders[i], borders[i + 1]) for i, (s, e) in enumerate(shown)]
