"""A softmax over the tags of each token, with the tag scheme enforced when decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from nershift.data.labels import LabelSpace, span_tags
from nershift.data.spans import Span
from nershift.heads.base import Head, register, widened
from nershift.heads.crf.kernels import viterbi
from nershift.heads.soft import SoftForm, SoftTargets
from nershift.heads.tags import TagHead, legality, tag_nll, unpad


@register("softmax")
class SoftmaxHead(TagHead):
    """Every token chooses its tag on its own; only decoding looks at neighbours.

    Args:
        space: the label space.
        size: width of the encoder states.
        constrained: decode the most probable *legal* tag sequence (else the best tag of each token, which may
            break the scheme).

    Example:
        >>> head = SoftmaxHead(LabelSpace.of(["LOC"]), size=4)
        >>> head.loss(torch.zeros(2, 3, 4), torch.ones(2, 3).bool(), torch.zeros(2, 3).long()).shape
        torch.Size([2])
    """

    exportable = True
    cuda_graph_safe = True
    gives_soft = "tags"
    takes_soft: ClassVar[tuple[SoftForm, ...]] = ("tags", "chain")
    _steps: Tensor
    _starts: Tensor
    _ends: Tensor

    def __init__(self, space: LabelSpace, size: int, constrained: bool = True) -> None:
        super().__init__(space, size)
        self.constrained = constrained
        for name, table in legality(space).items():
            legal = torch.tensor(table)
            scores = torch.zeros(legal.shape).masked_fill(~legal, float("-inf"))
            self.register_buffer(name, scores, persistent=False)

    def log_probabilities(self, states: Tensor) -> Tensor:
        """[B, L, H] -> [B, L, C]."""
        return functional.log_softmax(widened(self.project(states)), -1)

    def loss(self, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        return tag_nll(self.log_probabilities(states), mask, tags)

    def _predictable(self, states: Tensor) -> Tensor:
        """:meth:`log_probabilities` among the tags that the head may predict; -inf for the others."""
        scores = widened(self.project(states)).masked_fill(~self._predicted, float("-inf"))
        return functional.log_softmax(scores, -1)

    def _answer_loss(self, states: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
        return tag_nll(self._predictable(states), mask, targets)

    @torch.no_grad()
    def soft_targets(self, states: Tensor, mask: Tensor, student: Head, temperature: float = 1.0) -> SoftTargets:
        scores = self._predictable(states) / (self.temperature * temperature)
        chances = torch.softmax(scores, -1).masked_fill(~mask[..., None], 0.0)
        return SoftTargets.of_tokens(chances[..., self.tags_for(student)])

    def soft_loss(self, states: Tensor, mask: Tensor, soft: SoftTargets) -> Tensor:
        logs = self.log_probabilities(states)
        return -(soft.tokens.to(logs) * logs).sum((1, 2))  # targets are zero under padding

    @torch.no_grad()
    def decode(self, states: Tensor, mask: Tensor) -> list[list[int]]:
        scores = self._predictable(states)
        if not self.constrained:
            return unpad(scores.argmax(-1), mask)
        return unpad(viterbi(scores, self._steps, self._starts, self._ends, mask)[0], mask)

    @torch.no_grad()
    def confidences(self, states: Tensor, mask: Tensor, spans: Sequence[Sequence[Span]]) -> list[list[float]]:
        """The product of the probabilities of the span's tags, as if tokens were independent."""
        scores = functional.log_softmax(self._predictable(states) / self.temperature, -1).cpu()
        return [
            [float(row[torch.arange(s.start, s.end), span_tags(self.space, s)].sum().exp()) for s in mine]
            for row, mine in zip(scores, spans, strict=True)
        ]
