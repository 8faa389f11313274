"""Parts of a set of labelled sentences, each of which is held out once."""

from __future__ import annotations

import random
from collections.abc import Sequence

from nershift.data.spans import Sentence


def folds(sentences: Sequence[Sentence], number: int, seed: int = 1) -> list[set[int]]:
    """Indices in ``number`` parts of like size (fewer where there are fewer sentences), sorted by types and dealt.

    Example:
        >>> s = [Sentence.of(["a"], [(0, 1, "A")]), Sentence.of(["b"])] * 4
        >>> [len(part) for part in folds(s, 4)]
        [2, 2, 2, 2]
    """
    order = list(range(len(sentences)))
    random.Random(seed).shuffle(order)
    order.sort(key=lambda i: sorted({span.label for span in sentences[i].spans}))
    number = min(number, len(order))
    return [set(order[k::number]) for k in range(number)]
