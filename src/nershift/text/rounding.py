"""Fewer batch shapes, so that a step recorded for one shape can often be replayed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rounding:
    """Each axis of a batch is padded to ``least``, or twice, four times, … as much.

    Padding changes no state and no gradient. Dropout draws over a wider tensor, so it drops other units.

    Example:
        >>> Rounding.up(5, 8), Rounding.up(17, 8)
        (8, 32)
    """

    length: int  # tokens of a sentence
    forms: int  # distinct words
    letters: int  # of a word
    pieces: int = 16  # sub-words of a window

    @staticmethod
    def up(count: int, least: int) -> int:
        while least < count:
            least *= 2
        return least
