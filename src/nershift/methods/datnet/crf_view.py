"""Some tags of a larger linear chain as a head: label sets that overlap in part, and share what they can."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from nershift.data.labels import LabelSpace, split_tag
from nershift.heads.crf.head import CRFHead


class CRFView(CRFHead):
    """Scores, normalises and decodes over the tags of ``space`` alone, with the parameters of ``whole``.

    The parameters are the very tensors of ``whole``, under the names they have there; several views of one whole
    train the rows that they share together.

    Args:
        whole: over at least these types, in the same scheme.
        types: each type of ``space`` → its name in ``whole``; no two have one.
    """

    project: _SomeRows

    def __init__(self, whole: CRFHead, space: LabelSpace, types: Mapping[str, str]) -> None:
        super().__init__(space, whole.project.in_features)
        index = whole.space.index
        parted = [split_tag(tag) for tag in space.tags[1:]]
        rows = torch.tensor([0, *(index[f"{letter}-{types[label]}"] for letter, label in parted)])  # O is 0
        self.project = _SomeRows(whole.project, rows)
        self.transitions, self.starts, self.ends = whole.transitions, whole.starts, whole.ends

    def scores(self) -> tuple[Tensor, Tensor, Tensor]:
        rows = self.project.rows
        return (
            self.transitions.index_select(0, rows).index_select(1, rows),
            self.starts.index_select(0, rows),
            self.ends.index_select(0, rows),
        )

    @torch.no_grad()
    def plain(self) -> CRFHead:
        """A head of its own that does the same."""
        made = CRFHead(self.space, self.project.in_features).to(self.starts)
        own = (*made.scores(), made.project.weight, made.project.bias)
        for parameter, value in zip(own, (*self.scores(), *self.project.kept()), strict=True):
            parameter.copy_(value)
        made.temperature = self.temperature
        return made


class _SomeRows(nn.Linear):
    """A linear layer that gives some of the numbers which another one, whose parameters it shares, would give."""

    rows: Tensor  # [C]

    def __init__(self, whole: nn.Linear, rows: Tensor) -> None:
        super().__init__(whole.in_features, whole.out_features)
        self.weight, self.bias = whole.weight, whole.bias
        self.register_buffer("rows", rows, persistent=False)

    def kept(self) -> tuple[Tensor, Tensor]:
        return self.weight.index_select(0, self.rows), self.bias.index_select(0, self.rows)

    def forward(self, states: Tensor) -> Tensor:
        return linear(states, *self.kept())  # [B, L, H] -> [B, L, C]
