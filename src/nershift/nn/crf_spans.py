"""How probable a span is under a linear chain, summed over everything the rest of the sentence may be."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nershift.data.labels import LabelSpace
from nershift.data.spans import Span
from nershift.nn.crf_kernels import log_partition
from nershift.nn.decoders import span_tags

_BLOCKED = -1e9


@torch.no_grad()
def span_probabilities(
    emissions: Tensor,
    transitions: Tensor,
    starts: Tensor,
    ends: Tensor,
    mask: Tensor,
    space: LabelSpace,
    spans: Sequence[Sequence[Span]],
) -> list[list[float]]:
    """Exact probability of each span: that decoding would give it with these borders and this type.

    It is the share of the partition function left when all tag sequences without the span are ruled out, so
    one more run over a batch of as many sentences as there are spans answers for all of them.

    Args:
        emissions: [B, L, C].
        transitions: [C, C], illegal steps at -1e9.
        starts: [C].
        ends: [C].
        mask: bool, left aligned, [B, L].
        space: the label space of the C tags.
        spans: the spans asked about, for each sentence.
    """
    emissions, chain = emissions.detach().float(), (transitions, starts, ends)
    asked = [(row, span) for row, mine in enumerate(spans) for span in mine]
    # IOB1 begins a span with I- or B-, by what stands before it: two disjoint cases, each its own row.
    firsts = ("I", "B") if space.scheme == "IOB1" else ("",)
    shares = torch.zeros(len(asked), dtype=torch.float64)
    if asked:
        rows = torch.tensor([row for row, _ in asked], device=mask.device)
        total = log_partition(emissions, *chain, mask).double()[rows]
        for first in firsts:
            blocked = _ruled_out([span for _, span in asked], space, first, mask.shape[1]).to(mask.device)
            ruled = emissions[rows].masked_fill_(blocked, _BLOCKED)
            left = log_partition(ruled, *chain, mask[rows]).double()
            shares += (left - total).exp().cpu()
    flat = iter(shares.clamp_(max=1.0).tolist())
    return [[next(flat) for _ in mine] for mine in spans]


def _ruled_out(spans: Sequence[Span], space: LabelSpace, first: str, length: int) -> Tensor:
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
    out = torch.zeros(len(spans), length, len(space), dtype=torch.bool)
    at = torch.tensor(tokens).t()
    out[at[0], at[1]] = True
    out[at[0], at[1], torch.tensor(kept)] = False
    if more:
        out[tuple(torch.tensor(more).t())] = True
    return out
