"""Which sub-words a masked language model has to predict: single ones, or spans of whole words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Masking = Literal["token", "span"]
_STOP = 0.2  # chance that a span ends after a word: lengths are geometric, as in SpanBERT
_MAX_WORDS = 10  # of a span
_MEAN_WORDS = sum(n * (1 - _STOP) ** (n - 1) * (_STOP if n < _MAX_WORDS else 1) for n in range(1, _MAX_WORDS + 1))
MASKED, REPLACED = 0.8, 0.9  # 80% become the mask, the next 10% another sub-word, the rest stays


@dataclass(frozen=True)
class Rows:
    """Sub-words of a batch, row by row, without padding and special ones."""

    subwords: np.ndarray  # [P] ids
    words: np.ndarray  # [P] index of the word within the batch
    rows: np.ndarray  # [P] index of the row


def choose(rows: Rows, masking: Masking, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Which sub-words to predict ``[P]``, and a number in [0, 1) for each that decides how it is shown ``[P]``.

    The words of a span share a number (where spans overlap, that of the last one to start): a span is masked as a
    whole or not at all.
    """
    if masking == "token":
        return rng.random(len(rows.subwords)) < share, rng.random(len(rows.subwords))
    first = np.flatnonzero(np.diff(rows.words, prepend=-1))  # first sub-word of each word
    words = np.arange(len(first))
    # Spans end at the end of their row; here in words.
    row_ends = np.searchsorted(rows.rows[first], rows.rows[first], side="right")
    # Spans may overlap: with this density they cover `share` of the words.
    starts = np.flatnonzero(rng.random(len(first)) < -np.log1p(-share) / _MEAN_WORDS)
    stops = np.minimum(starts + np.minimum(rng.geometric(_STOP, len(starts)), _MAX_WORDS), row_ends[starts])
    change = np.zeros(len(first) + 1, np.int64)
    np.add.at(change, starts, 1)
    np.add.at(change, stops, -1)
    covered = change.cumsum()[:-1] > 0
    draws = np.zeros(len(first))
    draws[starts] = rng.random(len(starts))
    last_start = np.maximum.accumulate(np.where(np.isin(words, starts), words, 0))
    return covered[rows.words], draws[last_start][rows.words]


def corrupt(
    rows: Rows, chosen: np.ndarray, draws: np.ndarray, mask_id: int, ordinary: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The sub-words as the model sees them; ``ordinary`` are the ids that may replace others."""
    shown = rows.subwords.copy()
    shown[chosen & (draws < MASKED)] = mask_id
    replaced = chosen & (draws >= MASKED) & (draws < REPLACED)
    shown[replaced] = rng.choice(ordinary, replaced.sum())
    return shown
