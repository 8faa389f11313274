"""Sub-words of a sentence laid out in the windows of an encoder, and batches of such windows; without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nershift.text.word_cache import Rounding


@dataclass(frozen=True)
class Pieces:
    """Sub-words of one sentence: ``ids`` of each window, and the (window, position) of each token."""

    ids: tuple[tuple[int, ...], ...]
    at: tuple[tuple[int, int], ...]
    forms: np.ndarray


@dataclass(frozen=True)
class Frame:
    """The window of an encoder: special sub-words, the padding id, and room for words."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    pad: int
    unknown: int
    room: int  # sub-words of words that fit a window
    overlap: int  # sub-words shared by neighbouring windows

    def by_word(self, ids: Sequence[int], words: Sequence[int | None], count: int) -> list[list[int]]:
        """The sub-words of each of ``count`` words, from a tokenizer's ids and the word each belongs to.

        A word without sub-words (a lone control character) counts as unknown. A word with more sub-words than fit
        the window is cut; only the state of its first sub-word is read.
        """
        pieces: list[list[int]] = [[] for _ in range(count)]
        for piece, word in zip(ids, words, strict=True):
            if word is not None:
                pieces[word].append(piece)
        return [(p or [self.unknown])[: self.room] for p in pieces]

    def lay_out(
        self, pieces: Sequence[Sequence[int]]
    ) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, int], ...]]:
        """``ids`` and ``at`` of :class:`Pieces`; every token is read in one window only."""
        ids: list[tuple[int, ...]] = []
        at: list[tuple[int, int]] = []
        for n, window in enumerate(windows([len(p) for p in pieces], self.room, self.overlap)):
            shown = list(self.before)
            for i in range(window.start, window.end):
                if window.emit_start <= i < window.emit_end:
                    at.append((n, len(shown)))
                shown += pieces[i]
            ids.append((*shown, *self.after))
        return tuple(ids), tuple(at)


def pad_windows(
    items: Sequence[Pieces], pad: int, rounding: Rounding | None = None, most: int = 0
) -> dict[str, NDArray[np.int64]]:
    """``input_ids`` and ``attention_mask [N windows, S]``, and ``where [B, L]``: each token among their N·S places.

    ``mask [B, L]`` (bool) is False for padding. Rounded windows have at most ``most`` positions.
    """
    longest = max(len(w) for item in items for w in item.ids)
    tokens = max(len(item.at) for item in items)
    if rounding is not None:
        longest = max(longest, min(rounding.up(longest, rounding.pieces), most))
        tokens = rounding.up(tokens, rounding.length)
    ids = np.full((sum(len(item.ids) for item in items), longest), pad)
    attention = np.zeros_like(ids)
    where = np.zeros((len(items), tokens), dtype=np.int64)
    mask = np.zeros(where.shape, dtype=bool)
    row = 0
    for b, item in enumerate(items):
        where[b, : len(item.at)] = [(row + n) * longest + p for n, p in item.at]
        mask[b, : len(item.at)] = True
        for window in item.ids:
            ids[row, : len(window)] = window
            attention[row, : len(window)] = 1
            row += 1
    return {"input_ids": ids, "attention_mask": attention, "where": where, "mask": mask}


@dataclass(frozen=True)
class Window:
    """Tokens ``start:end`` are shown to the encoder, of which ``emit_start:emit_end`` are kept."""

    start: int
    end: int
    emit_start: int
    emit_end: int


def windows(lengths: Sequence[int], room: int, overlap: int) -> list[Window]:
    """Cut a sentence whose tokens have ``lengths`` sub-words into windows of at most ``room`` sub-words.

    Neighbouring windows share about ``overlap`` sub-words. Each emits half of what they share, so that every token is
    read where it has most context. A single token longer than ``room`` gets its own window (the caller cuts it).

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
