"""How probable spans are under a linear chain: exact, by one forward-backward run whatever their number. No torch here.

A chain reads from left to right: the probability of a row of tags is that of the first, times that of each next tag
given the one before. Both come from the run, whose memory grows with length × tags and not with the spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nershift.data.labels import LabelSpace, span_tags
from nershift.data.spans import Span
from nershift.heads.crf.arrays import Array, Pass

_TOGETHER = 1 << 14  # tags of rows that are looked at at once


def span_probabilities(
    emissions: Array,
    transitions: Array,
    starts: Array,
    ends: Array,
    mask: Array,
    space: LabelSpace,
    spans: Sequence[Sequence[Span]],
) -> list[list[float]]:
    """The probability of each span: that the tags of its sentence say these borders and this type.

    Args:
        emissions: [B, L, C].
        transitions: [C, C], before × after, illegal steps at -1e9.
        starts: [C].
        ends: [C].
        mask: bool, left aligned, [B, L].
        space: the label space of the C tags.
        spans: the spans asked about, for each sentence; they may overlap.
    """
    asked = [row for row, mine in enumerate(spans) if mine]
    if not asked:
        return [[] for _ in spans]
    found = Marginals.of(emissions[asked], transitions, starts, ends, mask[asked])
    lengths = mask[asked].sum(1).tolist()
    owners = [(n, span) for n, row in enumerate(asked) for span in spans[row]]
    sums = np.zeros(len(owners))
    rows = (
        (i, sign, TagRow(n, start, tags))
        for i, (n, span) in enumerate(owners)
        for sign, start, tags in rows_of_tags(space, span, lengths[n])
    )
    for some in _portions(rows):
        spots, signs, tags = zip(*some, strict=True)
        np.add.at(sums, list(spots), np.array(signs) * found.probabilities(tags))
    flat = iter(np.clip(sums, 0.0, 1.0).tolist())
    return [[next(flat) for _ in mine] for mine in spans]


@dataclass(frozen=True)
class TagRow:
    """Tags of the tokens of sentence ``sentence`` from ``start`` on."""

    sentence: int
    start: int
    tags: Sequence[int]


def rows_of_tags(space: LabelSpace, span: Span, length: int) -> Iterator[tuple[int, int, list[int]]]:
    """Rows of tags, each with a sign and its first token: their probabilities, so signed, add up to the span's.

    In BIO and IOB1 no tag ends a span. So what goes on behind it is taken off, and in IOB1 what has begun before it.
    """
    own = span_tags(space, span)
    rows = [(1, span.start, own)]
    if space.scheme == "IOB1":  # its first tag is I-, but B- right after an entity of its type
        inside, begin = own[0], space.index[f"B-{span.label}"]
        rows.append((1, span.start, [begin, *own[1:]]))
        if span.start > 0:
            rows += [(-1, span.start - 1, [before, *own]) for before in (inside, begin)]
    for sign, start, tags in rows:
        yield sign, start, tags
        if space.scheme in ("BIO", "IOB1") and span.end < length:
            yield -sign, start, [*tags, space.index[f"I-{span.label}"]]


def _portions(rows: Iterator[tuple[int, int, TagRow]]) -> Iterator[list[tuple[int, int, TagRow]]]:
    """Groups of rows with so many tags in all; a longer row by itself."""
    group, size = list[tuple[int, int, TagRow]](), 0
    for row in rows:
        if group and size + len(row[2].tags) > _TOGETHER:
            yield group
            group, size = [], 0
        group.append(row)
        size += len(row[2].tags)
    yield group


@dataclass(frozen=True)
class Marginals:
    """What forward-backward says of every tag of every token, ``[L, B, C]``.

    Attributes:
        single: its probability.
        onward: the weight of all ways on from it, itself included, up to a factor a token.
        moves: transition scores, [C, C].
        logs: whether ``single`` and ``onward`` are logarithms.
    """

    single: Array
    onward: Array
    moves: Array
    logs: bool

    @classmethod
    def of(cls, emissions: Array, transitions: Array, starts: Array, ends: Array, mask: Array) -> Marginals:
        moves, run = transitions.astype(np.float64), Pass(emissions, transitions, starts, ends, mask, None, True)
        if run.value is not None:
            return cls(run.unary, run.after, moves, logs=False)
        return cls(*_in_log_space(emissions.astype(np.float64), moves, starts, ends, mask), moves, logs=True)

    def probabilities(self, rows: Sequence[TagRow]) -> Array:
        """Of each row of tags, whatever the other tokens of its sentence have."""
        widths = np.array([len(row.tags) for row in rows])
        owner = np.repeat(np.arange(len(rows)), widths)
        begin = np.cumsum(widths) - widths  # where each row begins among all tags
        tag = np.concatenate([row.tags for row in rows])
        sentence = np.array([row.sentence for row in rows])[owner]
        token = np.arange(len(tag)) - (begin - np.array([row.start for row in rows]))[owner]
        first = self._log(self.single[token[begin], sentence[begin], tag[begin]])
        later = np.ones(len(tag), bool)
        later[begin] = False
        steps = np.flatnonzero(later)
        if not len(steps):
            return np.exp(first)
        # All ways on from the tag before, [N, C], and the share of them that begins with the tag.
        ways = self.moves[tag[steps - 1]] + self._log(self.onward[token[steps], sentence[steps]])
        top = ways.max(1, keepdims=True)
        with np.errstate(invalid="ignore"):  # from an impossible tag there is no way on
            ways -= top
            shares = ways[np.arange(len(steps)), tag[steps]] - np.log(np.exp(ways).sum(1))
        shares = np.where(np.isneginf(top[:, 0]), -np.inf, shares)
        value: Array = np.exp(first + np.bincount(owner[steps], shares, len(rows)))
        return value

    def _log(self, values: Array) -> Array:
        if self.logs:
            return values
        with np.errstate(divide="ignore"):
            logs: Array = np.log(values)
        return logs


def _in_log_space(emissions: Array, moves: Array, starts: Array, ends: Array, mask: Array) -> tuple[Array, Array]:
    """``single`` and ``onward`` by the textbook loops, for scores too far apart for probability space."""
    steps, inside = emissions.transpose(1, 0, 2), mask.T[..., None]  # [L, B, C]
    last = np.maximum(mask.sum(1) - 1, 0)
    forward, onward = np.empty_like(steps), np.empty_like(steps)
    forward[0] = starts + steps[0]
    for t in range(1, len(steps)):
        forward[t] = np.logaddexp.reduce(forward[t - 1][:, :, None] + moves, 1) + steps[t]
    rest = np.broadcast_to(ends, onward[0].shape)  # weight of the ways on behind a token
    for t in range(len(steps) - 1, -1, -1):
        if t < len(steps) - 1:
            ways = np.logaddexp.reduce(moves + onward[t + 1][:, None], 2)
            rest = np.where((t < last)[:, None], ways, ends)
        onward[t] = rest + steps[t]
    both = forward + onward - steps
    single = np.where(inside, both - np.logaddexp.reduce(both, 2)[..., None], -np.inf)
    return single, onward
