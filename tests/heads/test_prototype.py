"""Prototype classification against distances computed one by one."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from nershift.data.labels import LabelSpace
from nershift.heads.base import make_head
from nershift.heads.prototype import PrototypeHead

SPACE = LabelSpace.of(["LOC", "PER"], "BIO")  # O, B-LOC, I-LOC, B-PER, I-PER


def example() -> tuple[PrototypeHead, Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    head = PrototypeHead(SPACE, 4)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0]]).bool()
    tags = torch.tensor([[1, 2, 0], [3, 0, 0], [0, 1, 2], [3, 0, 0]])
    return head, torch.randn(4, 3, 4), mask, tags


def prototype(head: PrototypeHead, states: Tensor, mask: Tensor, tags: Tensor, tag: int) -> Tensor | None:
    if tag == 0:
        return head.outside
    chosen = states[mask & (tags == tag)]
    return chosen.mean(0) if len(chosen) else None


def test_settled_scores_are_softmax_of_negative_squared_distances() -> None:
    head, states, mask, tags = example()
    head.settle([(states[:2], mask[:2], tags[:2]), (states[2:], mask[2:], tags[2:])])
    found = head.log_probabilities(states)
    points = [prototype(head, states, mask, tags, t) for t in range(5)]
    assert points[4] is None  # no token carries I-PER
    for b, t in mask.nonzero().tolist():
        distances = torch.stack([(states[b, t] - p).square().sum() for p in points if p is not None])
        torch.testing.assert_close(found[b, t, :4], torch.log_softmax(-distances, 0))
        assert found[b, t, 4] < -1e6


def test_each_half_is_told_from_the_other() -> None:
    head, states, mask, tags = example()
    torch.manual_seed(9)
    found = head.loss(states, mask, tags)
    torch.manual_seed(9)
    order = torch.randperm(4)
    for query, support in ((order[:2], order[2:]), (order[2:], order[:2])):
        points = [prototype(head, states[support], mask[support], tags[support], t) for t in range(5)]
        known = [t for t in range(5) if points[t] is not None]
        for b in query.tolist():
            expected = torch.zeros(())
            for t in range(int(mask[b].sum())):
                if int(tags[b, t]) not in known:
                    continue  # the support has never seen it
                distances = torch.stack([(states[b, t] - points[k]).square().sum() for k in known])
                expected = expected - torch.log_softmax(-distances, 0)[known.index(int(tags[b, t]))]
            torch.testing.assert_close(found[b], expected)


def test_gradients_reach_states_and_the_prototype_of_outside_tokens() -> None:
    head, states, mask, tags = example()
    states.requires_grad_()
    head.loss(states, mask, tags).mean().backward()
    assert states.grad is not None
    assert states.grad.isfinite().all()
    assert (states.grad[~mask] == 0).all()
    assert head.outside.grad is not None
    assert head.project.weight.grad is None


def test_one_sentence_is_its_own_support() -> None:
    head, states, mask, tags = example()
    loss = head.loss(states[:1], mask[:1], tags[:1])
    assert loss.shape == (1,)
    assert loss.isfinite().all()


def test_decoded_tags_are_legal_and_it_is_made_by_name() -> None:
    head, states, mask, tags = example()
    head.settle([(states, mask, tags)])
    for ids in head.decode(torch.randn(4, 3, 4), mask):
        assert all(SPACE.legal_steps[a][b] for a, b in pairwise(ids))
        assert SPACE.legal_starts[ids[0]]
    again = make_head("prototypes", SPACE, 4)
    again.load_state_dict(head.state_dict())
    assert again.decode(states, mask) == head.decode(states, mask)
    assert again.describe()["kind"] == "prototypes"
