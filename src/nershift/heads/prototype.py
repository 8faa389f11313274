"""Tags as points: a token takes the tag whose prototype, the mean of tokens with that tag, is nearest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from nershift.data.labels import LabelSpace
from nershift.heads.base import Head, register, widened
from nershift.heads.softmax import SoftmaxHead
from nershift.heads.tags import tag_sums

ABSENT = -1e9  # score of a tag that no support token carries


@register("prototypes")
class PrototypeHead(SoftmaxHead):
    """A softmax over negative squared distances to prototypes.

    ``O`` is no class of like words, so its prototype is learned, not averaged. Training is episodic: one
    half of a batch is the support from which the other half is told, and the other way round. For use,
    :meth:`settle` fixes the prototypes. As ``-|x - c|² = 2 x·c - |c|² - |x|²`` and the last term is the same
    for all tags, they are the rows of a linear layer, and everything else is inherited.

    Example:
        >>> head = PrototypeHead(LabelSpace.of(["LOC"], "BIO"), size=2)
        >>> states, mask, tags = torch.tensor([[[0.0, 1.0]]]), torch.ones(1, 1).bool(), torch.tensor([[1]])
        >>> head.settle([(states, mask, tags)])
        >>> head.decode(states, mask)
        [[1]]
    """

    learns_rows = False
    takes_soft = ()  # its loss is episodic
    row_starts = ("random",)  # see :meth:`settle`

    def __init__(self, space: LabelSpace, size: int) -> None:
        super().__init__(space, size)
        self.project.requires_grad_(False)
        self.outside = nn.Parameter(torch.empty(size).uniform_(-0.1, 0.1))

    def loss(self, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        """Each sentence is told from the other half of the batch; tags the support lacks do not count."""
        states = widened(states)
        order = torch.randperm(len(states)).to(states.device)
        halves = [order[: len(order) // 2], order[len(order) // 2 :]] if len(order) > 1 else [order, order]
        out = states.new_zeros(len(states))
        for query, support in (halves, halves[::-1]):
            sums, counts = tag_sums(states[support], mask[support], tags[support], len(self.space))
            weight, bias = self._layer(sums, counts)
            scores = functional.log_softmax(functional.linear(states[query], weight, bias), -1)  # [Q, L, C]
            gold = tags[query]
            told = mask[query] & (bias[gold] > ABSENT)
            nll = -scores.gather(2, gold[..., None])[..., 0].masked_fill(~told, 0.0)  # [Q, L]
            out = out.index_add(0, query, nll.sum(1))
            if len(order) == 1:
                break
        return out

    def start_from(self, other: Head, mapping: Mapping[str, str]) -> bool:
        return False  # rows are prototypes: they come from labelled sentences, see :meth:`settle`

    @torch.no_grad()
    def settle(self, support: Iterable[tuple[Tensor, Tensor, Tensor]]) -> None:
        """Fix the prototypes to the means over all of ``support``: batches of states, mask and tags."""
        sums = torch.zeros_like(self.project.weight)
        counts = torch.zeros_like(self.project.bias)
        for states, mask, tags in support:
            more, seen = tag_sums(states, mask, tags, len(self.space))
            sums, counts = sums + more, counts + seen
        weight, bias = self._layer(sums, counts)
        self.project.weight.copy_(weight)
        self.project.bias.copy_(bias)

    def _layer(self, sums: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Weight ``[C, H]`` and bias ``[C]`` of the linear layer that measures distances."""
        means = sums / counts.clamp(min=1)[:, None]
        prototypes = torch.cat([self.outside[None].to(means.dtype), means[1:]])
        present = counts > 0
        present[0] = True
        return 2 * prototypes, (-prototypes.square().sum(1)).masked_fill(~present, ABSENT)
