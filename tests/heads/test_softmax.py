"""The softmax head."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional

from nershift.data.labels import LabelSpace
from nershift.data.spans import Span
from nershift.heads.softmax import SoftmaxHead

SPACE = LabelSpace.of(["A", "B"], "BIO")
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]).bool()


@pytest.fixture
def head() -> SoftmaxHead:
    torch.manual_seed(5)
    return SoftmaxHead(SPACE, 6)


@pytest.fixture
def states() -> torch.Tensor:
    return 3 * torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(1))


def test_loss_is_cross_entropy_summed_over_a_sentence(head, states):
    tags = torch.tensor([[0, 1, 2, 0], [3, 4, -100, -100]])
    losses = functional.cross_entropy(head.project(states).transpose(1, 2), tags, reduction="none")
    torch.testing.assert_close(head.loss(states, MASK, tags), losses.sum(1))


def test_constrained_decoding_is_the_best_legal_sequence(head, states):
    scores = head.log_probabilities(states).detach()
    for row, length, found in zip(scores, (4, 2), head.decode(states, MASK), strict=True):
        legal = [
            path
            for path in itertools.product(range(len(SPACE)), repeat=length)
            if SPACE.legal_starts[path[0]] and all(SPACE.legal_steps[a][b] for a, b in itertools.pairwise(path))
        ]
        best = max(legal, key=lambda path: float(sum(row[t, tag] for t, tag in enumerate(path))))
        assert found == list(best)


def test_greedy_decoding_takes_the_best_tag_of_each_token(states):
    torch.manual_seed(5)
    head = SoftmaxHead(SPACE, 6, constrained=False)
    best = head.project(states).argmax(-1).tolist()
    assert head.decode(states, MASK) == [best[0], best[1][:2]]


def test_confidence_is_the_product_of_token_probabilities(head, states):
    shares = head.log_probabilities(states).detach().exp()
    found = head.confidences(states, MASK, [[Span(1, 3, "B")], []])
    expected = shares[0, 1, SPACE.index["B-B"]] * shares[0, 2, SPACE.index["I-B"]]
    assert found[0] == pytest.approx([float(expected)])
    assert found[1] == []


def test_only_weights_are_saved(head):
    assert set(head.state_dict()) == {"project.weight", "project.bias"}
