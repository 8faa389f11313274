"""A linear chain with NumPy alone: forward-backward and best paths; no torch needed.

The forward-backward pass works in probability space in float64, both directions in one recursion. It is NumPy rather
than torch because a step is two tiny operations, and NumPy starts one in a fraction of torch's time. Side 0 of the
stacked recursion runs forward from the first token of each sentence, side 1 backward from its last, so ragged batches
need no masking inside the loop.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def viterbi(emissions: Array, transitions: Array, starts: Array, ends: Array, mask: Array) -> Array:
    """The best path of each sentence, [B, L] (0 under padding).

    Args:
        emissions: [B, L, C].
        transitions: [C, C], before × after.
        starts: [C].
        ends: [C].
        mask: bool, left aligned, [B, L].
    """
    steps = np.where(mask[..., None], emissions, np.float32(0)).transpose(1, 0, 2)  # [L, B, C]
    best = np.empty(steps.shape, np.float32)
    best[0] = steps[0] + starts
    room = np.empty((best.shape[2], *best.shape[1:]), np.float32)  # before × sentence × after
    for t in range(1, len(best)):
        np.add(best[t - 1].T[:, :, None], transitions[:, None, :], out=room)
        np.max(room, 0, out=best[t])
        best[t] += steps[t]
    return trace(best, transitions, ends, mask)[0]


def trace(best: Array, moves: Array, ends: Array, mask: Array) -> tuple[Array, Array]:
    """Walk back through best scores [L, B, C]: paths [B, L] and their scores [B]."""
    rows, last = np.arange(len(mask)), np.maximum(mask.sum(1) - 1, 0)
    into = np.ascontiguousarray(moves.T)  # [after, before]
    ended = best[last, rows] + ends  # [B, C]
    final = tag = ended.argmax(1)
    paths = np.empty(mask.shape, np.int64)
    paths[:, -1] = tag
    for t in range(len(best) - 2, -1, -1):
        tag = np.where(mask[:, t + 1], (best[t] + into[tag]).argmax(1), final)
        paths[:, t] = tag
    return np.where(mask, paths, 0), ended[rows, final]


FLOOR = -1e8  # scores at or below this, -inf included, mean "impossible"
# exp() in float64 reaches down to about e^-700. Products of a forward and a backward value, each up to
# `stride` steps past its last normalisation, must stay well above that: 2·(stride + 2)·spread <= 600.
_BUDGET = 300.0
# Matrix products with more multiplications are shared out to BLAS threads, which then fight with torch's over
# the cores; all products here are cut into blocks below it.
_SMALL = 1 << 18
_KEEP = 1 << 28  # bytes of working memory that may be kept between passes


class Pass:
    """One run over a batch: the value of each sentence, and on demand the gradient.

    Args:
        emissions: [B, L, C]; results have its dtype.
        transitions: [C, C].
        starts: [C].
        ends: [C].
        mask: bool, left aligned, [B, L].
        tags: gold tags [B, L], whose score is taken off the value, or None.
        gradient: prepare for :meth:`pull`.

    Attributes:
        value: log partition function less the score of ``tags``, [B]; None when scores differ by more than
            probability space can hold. That limit assumes, as is so in every tag scheme, that three steps
            lead from any tag to any other.
    """

    value: Array | None = None

    def __init__(
        self,
        emissions: Array,
        transitions: Array,
        starts: Array,
        ends: Array,
        mask: Array,
        tags: Array | None,
        gradient: bool,
    ) -> None:
        chain = (transitions, starts, ends)
        self.dtype, self.rows, self.lengths = emissions.dtype, np.arange(len(mask)), mask.sum(1)
        self.here = np.ascontiguousarray(mask.T)  # [L, B]
        self._room = _Room()
        self.last = np.maximum(self.lengths - 1, 0)  # [B]
        self.gold = None if tags is None else np.where(self.here, tags.T, 0)  # [L, B]
        with np.errstate(all="ignore"):
            steps = emissions.transpose(1, 0, 2)  # [L, B, C]
            if not self.here.all():
                steps = np.where(self.here[..., None], steps, 0.0)
            top, stride = _shift(steps, chain)
            if stride == 0:
                return
            value = self._forward(steps, top, chain, stride, 2 if gradient else 1)
            if not np.isfinite(value).all():
                return
            if self.gold is not None:
                value -= _score(steps, self.gold, self.here, self.last, chain)
            self.value = value.astype(self.dtype)
            if gradient:
                self._backward()

    def _forward(self, steps: Array, top: Array, chain: tuple[Array, Array, Array], stride: int, sides: int) -> Array:
        """Run the recursion; the log partition function, [B]."""
        length, batch, size = steps.shape
        room = self._room.take((3, sides, length, batch, size))
        self._weights, self._reached, self._joint = room
        shifted = np.subtract(steps, top, out=self._weights[0])
        np.exp(shifted, out=shifted)
        if sides == 2:
            back = self.lengths - 1 - np.arange(length)[:, None]  # [L, B]: the place counted from the end
            back = np.where(back < 0, np.arange(length)[:, None], back)
            self._back = back * batch + self.rows
            _pick(shifted, self._back, self._weights[1])
        self.moves, move_top = _scaled(chain[0])
        enter, enter_top = _scaled(chain[1])
        leave, leave_top = _scaled(chain[2])
        logs = _recursion(self._weights, self.moves, (enter, leave), stride, self._reached, self._joint)
        ending = np.log(self._joint[0, self.last, self.rows] @ leave)
        taken = np.cumsum(logs, 0)[self.last, self.rows] + (top[..., 0] * self.here).sum(0)
        value = ending + taken + self.last * move_top + enter_top + leave_top
        return np.where(self.lengths > 0, value, 0.0)

    def _backward(self) -> None:
        """Marginals of single tags, and the two factors whose product gives those of pairs."""
        rest, self.after = self._weights  # the weights are no longer needed: their room is
        _pick(self._reached[1], self._back, rest)  # [L, B, C], without the token's own weight
        _pick(self._joint[1], self._back, self.after)  # [L, B, C], with it
        self.before = self._joint[0]
        self.before /= np.einsum("tbc,tbc->tb", self.before, rest)[..., None]
        self.unary = np.multiply(self.before, rest, out=rest)
        self.unary[~self.here] = 0.0
        self.before = self.before[:-1]
        self.before[~self.here[1:]] = 0.0
        if self.gold is not None:
            self.unary[np.arange(len(rest))[:, None], self.rows, self.gold] -= self.here

    def pull(self, weights: Array) -> tuple[Array, Array, Array, Array]:
        """Gradient of ``(weights * value).sum()`` for emissions, transitions, starts and ends."""
        size = self.moves.shape[0]
        emissions = np.empty((len(self.rows), len(self.here), size), self.dtype)
        np.multiply(self.unary.transpose(1, 0, 2), weights[:, None, None], out=emissions, casting="same_kind")
        before = np.multiply(self.before, weights[:, None], out=self._reached[0, 1:]).reshape(-1, size)
        after = self.after[1:].reshape(-1, size)
        transitions, rows = np.zeros((size, size)), max(1, _SMALL // size**2)
        for at in range(0, len(after), rows):
            transitions += before[at : at + rows].T @ after[at : at + rows]
        transitions *= self.moves
        if self.gold is not None:
            inside = self.here[1:]
            spots = (self.gold[:-1] * size + self.gold[1:])[inside]
            used = np.bincount(spots, np.broadcast_to(weights, inside.shape)[inside], size * size)
            transitions -= used.reshape(size, size)
        starts, ends = weights @ self.unary[0], weights @ self.unary[self.last, self.rows]
        return emissions, transitions.astype(self.dtype), starts.astype(self.dtype), ends.astype(self.dtype)


class _Room:
    """Memory handed from one pass to the next: touching fresh pages costs more than the arithmetic."""

    _spare: ClassVar[list[Array]] = []

    def __init__(self) -> None:
        self._block: Array | None = None

    def take(self, shape: tuple[int, ...]) -> Array:
        size = math.prod(shape)
        try:
            block = self._spare.pop()
        except IndexError:
            block = np.empty(size)
        self._block = block if block.size >= size else np.empty(size)
        return self._block[:size].reshape(shape)

    def __del__(self) -> None:
        if self._block is not None and self._block.nbytes <= _KEEP and len(self._spare) < 2:
            self._spare.append(self._block)


def _recursion(
    weights: Array, moves: Array, edges: tuple[Array, Array], stride: int, reached: Array, joint: Array
) -> Array:
    """Run all sides at once over ``weights``, [S, L, B, C].

    Fills ``reached`` and ``joint`` (same shape) with the sums over predecessors without and with the token's
    own weight.

    Returns:
        the logarithms taken out of the forward side on the way, [L, B].
    """
    sides, length, batch, _ = weights.shape
    stacked = np.stack([moves, moves.T][:sides])  # [S, C, C]
    logs = np.zeros((length, batch))
    for side in range(sides):
        reached[side, 0] = edges[side]
    np.multiply(reached[:, 0], weights[:, 0], out=joint[:, 0])
    rows = max(1, _SMALL // moves.size)
    for t in range(1, length):
        for at in range(0, batch, rows):
            np.matmul(joint[:, t - 1, at : at + rows], stacked, out=reached[:, t, at : at + rows])
        np.multiply(reached[:, t], weights[:, t], out=joint[:, t])
        if t % stride == 0:
            norm = joint[:, t].sum(2, keepdims=True)
            joint[:, t] /= norm
            logs[t] = np.log(norm[0, :, 0])
    return logs


def _pick(source: Array, where: Array, out: Array) -> None:
    """Rows of ``source`` [L, B, C] by their flat index [L, B]."""
    np.take(source.reshape(-1, source.shape[2]), where, 0, out=out, mode="clip")


def _scaled(scores: Array) -> tuple[Array, float]:
    """Weights with 1 as the greatest, and the logarithm taken out."""
    top = float(scores.max())
    return np.exp(scores.astype(np.float64) - top), top


def _shift(steps: Array, chain: tuple[Array, ...]) -> tuple[Array, int]:
    """What to take off the emissions [L, B, C] before exp(), and how often to normalise.

    Returns:
        one number for all tokens (shape [1, 1, 1]) while that leaves strides long, else one a token
        [L, B, 1]; and the stride, 0 when scores are too far apart for any.
    """
    rest = math.log(steps.shape[2]) + max(map(_range, chain))
    top, low = steps.max(keepdims=True), steps.min(keepdims=True)
    stride = _stride(float(top[0, 0, 0] - low[0, 0, 0]) + rest)
    if stride < 8:
        top = steps.max(2, keepdims=True)
        low = np.where(steps > FLOOR, steps, top).min(2, keepdims=True)
        stride = _stride(float((top - low).max()) + rest)
    return top.astype(np.float64), stride


def _range(scores: Array) -> float:
    """From the lowest to the highest of the allowed scores; NaN when training has left no number among them."""
    allowed = scores[scores > FLOOR]
    return float(np.ptp(allowed)) if allowed.size else math.nan


def _stride(spread: float) -> int:
    # A spread that is NaN gives 0, too.
    return int(_BUDGET / spread) - 2 if spread <= _BUDGET / 3 else 0


def _score(steps: Array, gold: Array, here: Array, last: Array, chain: tuple[Array, Array, Array]) -> Array:
    """Score of the gold path of each sentence, [B]."""
    transitions, starts, ends = chain
    rows = np.arange(gold.shape[1])
    emitted = np.where(here, steps[np.arange(len(gold))[:, None], rows, gold], 0.0).sum(0, np.float64)
    moved = np.where(here[1:], transitions[gold[:-1], gold[1:]], 0.0).sum(0, np.float64)
    return emitted + moved + np.where(here[0], starts[gold[0]] + ends[gold[last, rows]], 0.0)
