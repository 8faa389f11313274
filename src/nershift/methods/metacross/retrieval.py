"""Nearest sentences by cosine similarity: exact, in blocks, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from nershift.errors import SetupError

_SCORES = 4_000_000  # similarities held at once


def unit(vectors: Tensor, centre: Tensor | None = None) -> Tensor:
    """Rows of length one, after subtracting ``centre``; a zero row stays zero."""
    vectors = vectors.float()
    return normalize(vectors if centre is None else vectors - centre, dim=-1)


def distinct(texts: Iterable[Sequence[str]]) -> tuple[list[int], list[int]]:
    """Positions of the first sentence with each text, and for every sentence the number of its text.

    An index of these first sentences has no duplicates: a sentence cannot retrieve its own copy, and two copies
    cannot take two of the K places.

    Example:
        >>> distinct([["a"], ["b"], ["a"]])
        ([0, 1], [0, 1, 0])
    """
    numbers: dict[tuple[str, ...], int] = {}
    first, number_of = list[int](), list[int]()
    for i, tokens in enumerate(texts):
        number = numbers.setdefault(tuple(tokens), len(numbers))
        if number == len(first):
            first.append(i)
        number_of.append(number)
    return first, number_of


def top_k(
    queries: Tensor, keys: Tensor, k: int, banned: Tensor | None = None, block: int = _SCORES
) -> tuple[Tensor, Tensor]:
    """The ``k`` rows of ``keys`` most similar to each row of ``queries``, best first.

    Args:
        queries: unit vectors, [Q, H].
        keys: unit vectors, [N, H]; moved to the queries' device block by block.
        banned: for each query one key that it must not retrieve (itself), or -1; [Q].
        block: similarities held at once; the result does not depend on it.

    Returns:
        Row numbers of keys and their similarities, both [Q, k], on the queries' device.

    Raises:
        SetupError: there are fewer than ``k`` keys.

    Example:
        >>> vectors = unit(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]))
        >>> top_k(vectors, vectors, 1, banned=torch.arange(3))[0].tolist()
        [[1], [0], [1]]
    """
    room = len(keys) - (banned is not None)
    if not 1 <= k <= room:
        raise SetupError(
            f"{k} neighbours were asked of an index of {len(keys)} distinct sentences",
            expected=f"1 to {max(room, 1)}",
            fix="lower the number of neighbours (options.neighbours), or give more source sentences",
        )
    if banned is not None and queries is keys:
        return _among_themselves(keys, k, banned, block)
    parts = [_search(part, keys, k, ban, block) for part, ban in _parts(queries, banned, block)]
    return torch.cat([rows for rows, _ in parts]), torch.cat([scores for _, scores in parts])


def _parts(queries: Tensor, banned: Tensor | None, block: int) -> Iterable[tuple[Tensor, Tensor | None]]:
    size = max(1, int(block**0.5))
    for start in range(0, len(queries), size):
        end = start + size
        yield queries[start:end], None if banned is None else banned[start:end]


def _search(queries: Tensor, keys: Tensor, k: int, banned: Tensor | None, block: int) -> tuple[Tensor, Tensor]:
    best = _Best(len(queries), k, queries)
    size = max(1, block // len(queries))
    for start in range(0, len(keys), size):
        scores = queries @ keys[start : start + size].to(queries.device).T
        if banned is not None:
            _ban(scores, banned, start)
        best.add(scores, start)
    return best.rows, best.scores


def _among_themselves(vectors: Tensor, k: int, banned: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Similarity is symmetric: each block of scores serves its rows and, transposed, its columns."""
    size = max(1, int(block**0.5))
    starts = range(0, len(vectors), size)
    bests = [_Best(len(vectors[start : start + size]), k, vectors) for start in starts]
    for i, left in enumerate(starts):
        for j, right in enumerate(starts[i:], i):
            scores = vectors[left : left + size] @ vectors[right : right + size].T
            turned = scores.T.contiguous() if j > i else None
            bests[i].add(_ban(scores, banned[left : left + size], right), right)
            if turned is not None:
                bests[j].add(_ban(turned, banned[right : right + size], left), left)
    return torch.cat([b.rows for b in bests]), torch.cat([b.scores for b in bests])


def _ban(scores: Tensor, banned: Tensor, start: int) -> Tensor:
    """Exclude one key of each row, where it is among these columns, without a GPU sync."""
    at = banned - start
    inside = (at >= 0) & (at < scores.shape[1])
    at = at.clamp(0, scores.shape[1] - 1)[:, None]
    values = scores.gather(1, at)
    return scores.scatter_(1, at, values.masked_fill(inside[:, None], float("-inf")))


class _Best:
    """The best keys seen so far, block by block."""

    def __init__(self, queries: int, k: int, like: Tensor) -> None:
        self.k = k
        self.scores = like.new_full((queries, k), float("-inf"))
        self.rows = torch.zeros(queries, k, dtype=torch.long, device=like.device)

    def add(self, scores: Tensor, start: int) -> None:
        values, columns = scores.topk(min(self.k, scores.shape[1]), 1)
        joint = torch.cat([self.scores, values], 1)
        self.scores, chosen = joint.topk(self.k, 1)
        self.rows = torch.cat([self.rows, columns + start], 1).gather(1, chosen)
