"""Decoding a linear chain with NumPy alone: best paths and span probabilities where there is no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nershift.data.labels import LabelSpace, span_tags
from nershift.data.spans import Span
from nershift.heads.crf.on_cpu import Pass

Array = NDArray[Any]

BLOCKED = -1e9  # the score of what is ruled out


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


def log_partition(emissions: Array, transitions: Array, starts: Array, ends: Array, mask: Array) -> Array:
    """Log of the sum of exp(score) over all paths, float64, [B]."""
    found = Pass(emissions.astype(np.float64), transitions, starts, ends, mask, None, False).value
    if found is not None:
        return found
    # Scores too far apart for probability space: the textbook loop in log space.
    alpha = starts + emissions[:, 0].astype(np.float64)  # [B, C]
    for t in range(1, emissions.shape[1]):
        step = np.logaddexp.reduce(alpha[:, :, None] + transitions, 1) + emissions[:, t]
        alpha = np.where(mask[:, t, None], step, alpha)
    value: Array = np.logaddexp.reduce(alpha + ends, 1)
    return value


def span_probabilities(
    emissions: Array,
    transitions: Array,
    starts: Array,
    ends: Array,
    mask: Array,
    space: LabelSpace,
    spans: Sequence[Sequence[Span]],
) -> list[list[float]]:
    """What :func:`nershift.heads.crf.spans.span_probabilities` says, from arrays."""
    asked = [(row, span) for row, mine in enumerate(spans) for span in mine]
    shares = np.zeros(len(asked))
    if asked:
        rows, chain = np.array([row for row, _ in asked]), (transitions, starts, ends)
        total = log_partition(emissions, *chain, mask)[rows]
        for first in first_prefixes(space):
            blocked = ruled_out([span for _, span in asked], space, first, mask.shape[1])
            left = log_partition(np.where(blocked, BLOCKED, emissions[rows]), *chain, mask[rows])
            shares += np.exp(left - total)
    flat = iter(np.minimum(shares, 1.0).tolist())
    return [[next(flat) for _ in mine] for mine in spans]


def first_prefixes(space: LabelSpace) -> tuple[str, ...]:
    """The cases in which a span can occur, to be told apart by ``first`` of :func:`ruled_out`.

    IOB1 begins a span with I- or B-, by what stands before it: two disjoint cases.
    """
    return ("I", "B") if space.scheme == "IOB1" else ("",)


def ruled_out(spans: Sequence[Span], space: LabelSpace, first: str, length: int) -> NDArray[np.bool_]:
    """Tags with which each span cannot occur, [spans, L, C]; ``first`` is set for IOB1 alone."""
    tokens: list[tuple[int, int]] = []  # where only one tag stays possible,
    kept: list[int] = []  # that tag,
    more: list[tuple[int, int, int]] = []  # and what else is out
    for row, span in enumerate(spans):
        tags = span_tags(space, span)
        if first:
            tags[0] = space.index[f"{first}-{span.label}"]
        tokens += [(row, t) for t in range(span.start, span.end)]
        kept += tags
        inside = space.index.get(f"I-{span.label}", 0)
        if space.scheme in ("BIO", "IOB1") and span.end < length:
            more.append((row, span.end, inside))  # else the span would go on
        if first == "I" and span.start > 0:  # after its own type, I- would go on with the span before
            more += [(row, span.start - 1, tag) for tag in (inside, space.index[f"B-{span.label}"])]
    out = np.zeros((len(spans), length, len(space)), dtype=bool)
    rows, places = np.array(tokens).T
    out[rows, places] = True
    out[rows, places, kept] = False
    if more:
        out[tuple(np.array(more).T)] = True
    return out
