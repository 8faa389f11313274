"""Small training sets cut out of a large one: for one seed, every smaller set lies in every larger one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal, TypeVar

from nershift.errors import SetupError

T = TypeVar("T")
Order = Literal["random", "file"]


def subset(
    sentences: Sequence[T],
    *,
    ratio: float | None = None,
    shots: int | None = None,
    seed: int = 0,
    order: Order = "random",
) -> list[T]:
    """Take a share (``ratio``) or a number (``shots``) of sentences; with neither, all, in drawing order.

    A seed stands for one permutation of the whole set and each size is a prefix of it. So the sets of one
    seed are nested whichever way their size was given, and the points of a learning curve differ by what was
    added, not by what was drawn.

    Args:
        sentences: the full training set. Its order matters: sort or shuffle it and other sentences are drawn.
        ratio: share of the set in (0, 1]. Rounded half up to a whole number of sentences, at least one.
        shots: number of sentences; 0 gives an empty list.
        seed: picks the permutation.
        order: ``"file"`` takes the first sentences as they stand, whatever the seed.

    Raises:
        SetupError: for an empty set, a size that it cannot serve, or both sizes at once.

    Example:
        >>> ten, four = subset(range(20), shots=10, seed=3), subset(range(20), ratio=0.2, seed=3)
        >>> ten[:4] == four
        True
        >>> subset("abcdef", shots=2, order="file")
        ['a', 'b']
    """
    size = subset_size(len(sentences), ratio=ratio, shots=shots)
    return [sentences[i] for i in drawing_order(len(sentences), seed=seed, order=order)[:size]]


def subset_size(available: int, *, ratio: float | None = None, shots: int | None = None) -> int:
    """The number of sentences that :func:`subset` takes from a set of ``available``."""
    if available < 1:
        raise SetupError(
            "a subset was asked of a training set without sentences",
            expected="at least one sentence",
            fix="check the path and the name of the train split",
        )
    if ratio is not None and shots is not None:
        raise SetupError(
            f"both a ratio ({ratio:g}) and a number of shots ({shots}) were given",
            expected="one of the two",
            fix="leave one away",
        )
    if ratio is not None:
        if not 0 < ratio <= 1:  # also refuses NaN
            percent = f"write {ratio / 100:g} for {ratio:g} per cent" if 1 < ratio <= 100 else ""
            raise SetupError(
                f"ratio {ratio:g} is not a share of the {available} sentences",
                expected="0 < ratio <= 1",
                fix=percent or "use 1 for all of them",
            )
        return max(1, int(ratio * available + 0.5))
    if shots is not None:
        if not 0 <= shots <= available:
            raise SetupError(
                f"{shots} shots were asked of a training set of {available} sentences",
                expected=f"0 <= shots <= {available}",
                fix="ask for fewer, or use ratio=1 for all of them",
            )
        return shots
    return available


def drawing_order(available: int, *, seed: int = 0, order: Order = "random") -> list[int]:
    """Positions in the order in which they are drawn: the one permutation behind all subsets of a seed."""
    if order not in ("random", "file"):
        raise SetupError(f"unknown order '{order}'", expected="'random' or 'file'")
    positions = list(range(available))
    if order == "random":
        random.Random(seed).shuffle(positions)
    return positions
