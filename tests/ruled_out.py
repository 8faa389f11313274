"""Probabilities of spans the plain way: one more run for each, with all tags ruled out that would contradict it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nershift.data.labels import LabelSpace, span_tags
from nershift.data.spans import Span
from nershift.heads.crf.kernels import log_partition, log_partition_reference


def span_probabilities(
    scores: Sequence[Tensor], mask: Tensor, space: LabelSpace, spans: Sequence[Sequence[Span]], fast: bool = False
) -> list[list[float]]:
    """From emissions, transitions, starts and ends: the share of the partition function that each span leaves.

    Memory grows with spans × length × tags.
    """
    emissions, *chain = scores
    asked = [(row, span) for row, mine in enumerate(spans) for span in mine]
    rows = torch.tensor([row for row, _ in asked], dtype=torch.long)
    run = log_partition if fast else log_partition_reference
    total, shares = run(emissions, *chain, mask)[rows], torch.zeros(len(asked), dtype=torch.float64)
    for first in ("I", "B") if space.scheme == "IOB1" else ("",):  # it begins with I-, or B- after its own type
        out = _ruled_out([span for _, span in asked], space, first, mask.shape[1])
        left = run(emissions[rows].masked_fill_(out, -1e9), *chain, mask[rows])
        shares += (left - total).double().exp()
    flat = iter(shares.clamp(max=1.0).tolist())
    return [[next(flat) for _ in mine] for mine in spans]


def _ruled_out(spans: Sequence[Span], space: LabelSpace, first: str, length: int) -> Tensor:
    """Tags with which each span cannot occur, [spans, L, C]; ``first`` is set for IOB1 alone."""
    tokens, kept = list[tuple[int, int]](), list[int]()  # where only one tag stays possible, and that tag
    more: list[tuple[int, int, int]] = []  # what else is out
    for row, span in enumerate(spans):
        tags, inside = span_tags(space, span), space.index[f"I-{span.label}"]
        if first:
            tags[0] = space.index[f"{first}-{span.label}"]
        tokens += [(row, t) for t in range(span.start, span.end)]
        kept += tags
        if space.scheme in ("BIO", "IOB1") and span.end < length:
            more.append((row, span.end, inside))  # else the span would go on
        if first == "I" and span.start > 0:  # after its own type, I- would go on with the span before
            more += [(row, span.start - 1, tag) for tag in (inside, space.index[f"B-{span.label}"])]
    out = torch.zeros(len(spans), length, len(space), dtype=torch.bool)
    rows, places = torch.tensor(tokens).T
    out[rows, places] = True
    out[rows, places, torch.tensor(kept)] = False
    if more:
        out[tuple(torch.tensor(more).T)] = True
    return out
