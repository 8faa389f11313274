"""How probable a span is under a linear chain, summed over everything the rest of the sentence may be."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nershift.data.labels import LabelSpace
from nershift.data.spans import Span
from nershift.heads.crf.arrays import BLOCKED, first_prefixes, ruled_out
from nershift.heads.crf.kernels import log_partition


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
    shares = torch.zeros(len(asked), dtype=torch.float64)
    if asked:
        rows = torch.tensor([row for row, _ in asked], device=mask.device)
        total = log_partition(emissions, *chain, mask).double()[rows]
        for first in first_prefixes(space):
            blocked = torch.from_numpy(ruled_out([span for _, span in asked], space, first, mask.shape[1]))
            ruled = emissions[rows].masked_fill_(blocked.to(mask.device), BLOCKED)
            left = log_partition(ruled, *chain, mask[rows]).double()
            shares += (left - total).exp().cpu()
    flat = iter(shares.clamp_(max=1.0).tolist())
    return [[next(flat) for _ in mine] for mine in spans]
