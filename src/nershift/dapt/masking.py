"""Which sub-words are hidden from a masked language model: single ones, or spans of whole words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Masking = Literal["token", "span"]
_STOP = 0.2  # chance that a span ends after a word: lengths are geometric, as in SpanBERT
_LONGEST = 10  # words of a span
_MEAN = sum(
    n * (1 - _STOP) ** (n - 1) * (_STOP if n < _LONGEST else 1) for n in range(1, _LONGEST + 1)
)  # words of a span
HIDDEN, REPLACED = 0.8, 0.9  # 80% become the mask, 10% another sub-word, 10% stay


@dataclass(frozen=True)
class Rows:
    """Sub-words of a batch, row by row without padding or special ones."""

    pieces: np.ndarray  # [P] ids
    words: np.ndarray  # [P] number of the word, counted from 0 through the batch
    rows: np.ndarray  # [P] number of the row


def choose(rows: Rows, masking: Masking, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Which sub-words are to be predicted ``[P]``, and a number in [0, 1) for what becomes of each ``[P]``.

    The words of a span share a number (where spans overlap, that of the one that starts last): a span is hidden as
    a whole or not at all.
    """
    if masking == "token":
        return rng.random(len(rows.pieces)) < share, rng.random(len(rows.pieces))
    first = np.flatnonzero(np.diff(rows.words, prepend=-1))  # first sub-word of each word
    numbers = np.arange(len(first))
    # End of the row that a word stands in, in words; spans are cut there.
    ends = np.searchsorted(rows.rows[first], rows.rows[first], side="right")
    # Spans may overlap: their density is such that `share` of the words is covered.
    starts = np.flatnonzero(rng.random(len(first)) < -np.log1p(-share) / _MEAN)
    stops = np.minimum(starts + np.minimum(rng.geometric(_STOP, len(starts)), _LONGEST), ends[starts])
    change = np.zeros(len(first) + 1, np.int64)
    np.add.at(change, starts, 1)
    np.add.at(change, stops, -1)
    covered = change.cumsum()[:-1] > 0
    fate = np.zeros(len(first))
    fate[starts] = rng.random(len(starts))
    latest = np.maximum.accumulate(np.where(np.isin(numbers, starts), numbers, 0))
    return covered[rows.words], fate[latest][rows.words]


def corrupt(
    rows: Rows,
    chosen: np.ndarray,
    fate: np.ndarray,
    mask_id: int,
    ordinary: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """The sub-words as the model sees them; ``ordinary`` are the ids that may stand in for others."""
    seen = rows.pieces.copy()
    seen[chosen & (fate < HIDDEN)] = mask_id
    swapped = chosen & (fate >= HIDDEN) & (fate < REPLACED)
    seen[swapped] = rng.choice(ordinary, swapped.sum())
    return seen
