"""A linear-chain conditional random field over the tags of a label space."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nershift.backend.device import double_backward_wanted
from nershift.data.labels import LabelSpace
from nershift.data.spans import Span
from nershift.heads.base import Head, register, widened
from nershift.heads.crf.kernels import (
    MOST_TAGS,
    log_partition,
    log_partition_reference,
    negative_log_likelihood,
    score,
    viterbi,
)
from nershift.heads.crf.marginals import expectations
from nershift.heads.crf.spans import span_probabilities
from nershift.heads.soft import SoftTargets
from nershift.heads.tags import TagHead, legality, unpad

IMPOSSIBLE = -1e9  # a finite stand-in for -inf, so that no difference of two such scores is NaN


@register("crf")
class CRFHead(TagHead):
    """Tag sequences that break the scheme have probability zero.

    Example:
        >>> head = CRFHead(LabelSpace.of(["LOC"]), size=4)
        >>> states, mask = torch.zeros(2, 3, 4), torch.tensor([[True] * 3, [True, False, False]])
        >>> [len(tags) for tags in head.decode(states, mask)]
        [3, 1]
    """

    exportable = True
    gives_soft = "chain"
    takes_soft = ("chain",)
    _steps: Tensor
    _starts: Tensor
    _ends: Tensor

    def __init__(self, space: LabelSpace, size: int) -> None:
        super().__init__(space, size)
        self.cuda_graph_safe = len(space) <= MOST_TAGS  # more tags run on the CPU
        self.transitions = nn.Parameter(torch.empty(len(space), len(space)).uniform_(-0.1, 0.1))
        self.starts = nn.Parameter(torch.empty(len(space)).uniform_(-0.1, 0.1))
        self.ends = nn.Parameter(torch.empty(len(space)).uniform_(-0.1, 0.1))
        for name, table in legality(space).items():
            self.register_buffer(name, torch.tensor(table), persistent=False)

    def scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Transition, start and end scores as they are learned."""
        return self.transitions, self.starts, self.ends

    def chain(self) -> tuple[Tensor, Tensor, Tensor]:
        """The same with illegal ones at ``IMPOSSIBLE``."""
        steps, starts, ends = self.scores()
        return (
            torch.where(self._steps, steps, IMPOSSIBLE),
            torch.where(self._starts, starts, IMPOSSIBLE),
            torch.where(self._ends, ends, IMPOSSIBLE),
        )

    def predicted_chain(self) -> tuple[Tensor, Tensor, Tensor]:
        """The same with no way to a tag that the head may not predict."""
        steps, starts, ends = self.chain()
        return (
            steps.masked_fill(~self._predicted, IMPOSSIBLE),  # [before, after]
            starts.masked_fill(~self._predicted, IMPOSSIBLE),
            ends,
        )

    def chain_scores(self) -> dict[str, Tensor]:
        return {"transitions": self.transitions, "starts": self.starts, "ends": self.ends}

    def parameters_by_tag(self) -> list[tuple[Tensor, int]]:
        return [*super().parameters_by_tag(), (self.starts, 1), (self.ends, 1), (self.transitions, 2)]

    def loss(self, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        return self._loss(states, mask, tags, self.chain())

    def _answer_loss(self, states: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
        return self._loss(states, mask, targets, self.predicted_chain())

    def _loss(self, states: Tensor, mask: Tensor, tags: Tensor, chain: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        emissions = widened(self.project(states))
        if double_backward_wanted():
            return log_partition_reference(emissions, *chain, mask) - score(emissions, tags, *chain, mask)
        return negative_log_likelihood(emissions, tags, *chain, mask)

    @torch.no_grad()
    def soft_targets(self, states: Tensor, mask: Tensor, student: Head, temperature: float = 1.0) -> SoftTargets:
        """The probability of each tag at each token, and how often each legal step is expected in the sentence."""
        tags, divisor = self.tags_for(student), self.temperature * temperature
        emissions = widened(self.project(states)) / divisor
        moves, starts, ends = (scores / divisor for scores in self.predicted_chain())
        tokens, steps = expectations(emissions, moves, starts, ends, mask)
        whole = steps[:, tags][:, :, tags]  # [B, C, C] in the student's order
        return SoftTargets(tokens[..., tags], whole[:, self._steps[tags][:, tags]])

    def soft_loss(self, states: Tensor, mask: Tensor, soft: SoftTargets) -> Tensor:
        """``-Σ_paths p(path) log q(path) = log Z - E_p[score]``.

        The score of a path is a sum over its tags and steps. So its expectation under the teacher's p needs the
        probabilities of tags and the expected numbers of steps, and nothing else of p.
        """
        emissions = widened(self.project(states))
        steps, starts, ends = self.scores()
        tokens, whole = soft.tokens.to(emissions), soft.whole.to(emissions)
        last = (mask.sum(1).clamp(min=1) - 1)[:, None, None].expand(-1, 1, tokens.shape[2])
        expected = (emissions * tokens).sum((1, 2)) + whole @ steps[self._steps]  # zero under padding
        expected = expected + tokens[:, 0] @ starts + tokens.gather(1, last)[:, 0] @ ends
        return log_partition(emissions, *self.chain(), mask) - expected

    @torch.no_grad()
    def decode(self, states: Tensor, mask: Tensor) -> list[list[int]]:
        return unpad(viterbi(self.project(states), *self.predicted_chain(), mask)[0], mask)

    @torch.no_grad()
    def confidences(self, states: Tensor, mask: Tensor, spans: Sequence[Sequence[Span]]) -> list[list[float]]:
        """Exact probabilities of the spans under the CRF, whatever the rest of the sentence is."""
        emissions = widened(self.project(states)) / self.temperature
        chain = (scores / self.temperature for scores in self.predicted_chain())
        # In double precision on the CPU, wherever the model is.
        steps, starts, ends, scores, here = (x.cpu().numpy() for x in (*chain, emissions, mask))
        return span_probabilities(scores, steps, starts, ends, here, self.space, spans)
