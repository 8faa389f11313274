"""Batches for tagging: sentences of like length together, bounded in number and in tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nershift.data.spans import Sentence, by_length

MOST_TOKENS = 16_384  # of a batch, padding included: what is computed for each of them takes memory at once


def bounded_batches(sentences: Sequence[Sentence], batch_size: int, most: int = MOST_TOKENS) -> Iterator[list[int]]:
    """Indices of non-empty sentences; a sentence longer than ``most`` tokens stands alone.

    Example:
        >>> rows = [Sentence.of(["w"] * n) for n in (3, 0, 9, 1, 3)]
        >>> list(bounded_batches(rows, 3)), list(bounded_batches(rows, 3, 6))
        ([[3, 0, 4], [2]], [[3, 0], [4], [2]])
    """
    for part in by_length(sentences, batch_size):
        step = max(1, most // len(sentences[part[-1]]))  # the last is the longest
        yield from (part[k : k + step] for k in range(0, len(part), step))
