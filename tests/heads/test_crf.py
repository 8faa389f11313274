"""The CRF against the enumeration of all paths."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from nershift.backend.device import double_backward
from nershift.data.labels import SCHEMES, LabelSpace, Scheme
from nershift.data.spans import Span
from nershift.errors import ConfigError, DataError, SetupError
from nershift.heads.base import make_head
from nershift.heads.crf.head import CRFHead

LENGTHS = (4, 1, 3)
Paths = dict[tuple[int, ...], float]


def paths_of(head: CRFHead, emissions: Tensor) -> Paths:
    """Score of every legal path of one sentence, [L, C], by brute force."""
    space, moves = head.space, head.transitions.detach()
    found = {}
    for path in itertools.product(range(len(space)), repeat=len(emissions)):
        pairs = list(itertools.pairwise(path))
        if not (space.legal_starts[path[0]] and space.legal_ends[path[-1]]):
            continue
        if not all(space.legal_steps[a][b] for a, b in pairs):
            continue
        total = head.starts.detach()[path[0]] + head.ends.detach()[path[-1]]
        total = total + sum(emissions[t, tag] for t, tag in enumerate(path))
        found[path] = float(total + sum(moves[a, b] for a, b in pairs))
    return found


@pytest.fixture(params=SCHEMES)
def case(
    request: pytest.FixtureRequest,
) -> tuple[CRFHead, Tensor, Tensor, list[Paths]]:
    torch.manual_seed(3)
    scheme: Scheme = request.param
    space = LabelSpace.of(["A", "B"] if scheme in ("BIO", "IOB1") else ["A"], scheme)
    head = CRFHead(space, 6)
    with torch.no_grad():
        for p in head.parameters():
            p.normal_()
    states = torch.randn(len(LENGTHS), max(LENGTHS), 6)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    emissions = head.project(states).detach()
    return head, states, mask, [paths_of(head, e[:n]) for e, n in zip(emissions, LENGTHS, strict=True)]


def log_z(paths: Paths) -> float:
    return float(torch.tensor(list(paths.values())).double().logsumexp(0))


def test_loss_is_that_of_enumeration(case):
    head, states, mask, paths = case
    gold = [list(p)[len(p) // 2] for p in paths]  # some legal path
    tags = torch.full(mask.shape, -100)
    for row, path in enumerate(gold):
        tags[row, : len(path)] = torch.tensor(path)
    expected = [log_z(p) - p[g] for p, g in zip(paths, gold, strict=True)]
    assert head.loss(states, mask, tags).tolist() == pytest.approx(expected, abs=1e-4)
    with double_backward():
        assert head.loss(states, mask, tags).tolist() == pytest.approx(expected, abs=1e-4)


def test_decoding_follows_enumeration(case):
    head, states, mask, paths = case
    assert head.decode(states, mask) == [list(max(p, key=p.get)) for p in paths]


def test_span_probabilities_follow_enumeration(case):
    head, states, mask, paths = case
    types = head.space.types
    spans = [[Span(i, j, t) for i in range(n) for j in range(i + 1, n + 1) for t in types] for n in LENGTHS]
    found = head.confidences(states, mask, spans)
    for mine, values, all_of in zip(spans, found, paths, strict=True):
        for span, value in zip(mine, values, strict=True):
            having = [v for path, v in all_of.items() if span in head.space.decode(path)]
            expected = sum(math.exp(v - log_z(all_of)) for v in having)
            assert value == pytest.approx(expected, abs=1e-5), span


def test_confidences_of_nothing_and_of_unknown_types(case):
    head, states, mask, _ = case
    assert head.confidences(states, mask, [[], [], []]) == [[], [], []]
    with pytest.raises(DataError, match="not in the label space"):
        head.confidences(states, mask, [[Span(0, 1, "nowhere")], [], []])


def test_padding_has_no_effect(case):
    head, states, mask, _ = case
    tags = torch.zeros(mask.shape, dtype=torch.long)
    dirty = states.clone()
    dirty[~mask] = 1e6
    assert torch.equal(head.loss(states, mask, tags), head.loss(dirty, mask, tags))
    assert head.decode(states, mask) == head.decode(dirty, mask)


def test_decode_is_legal_whatever_the_scores():
    torch.manual_seed(0)
    space = LabelSpace.of("ABCD")
    head = CRFHead(space, 8)
    states = 100 * torch.randn(16, 9, 8)
    for row in head.decode(states, torch.ones(16, 9).bool()):
        assert space.encode(space.decode(row), 9) == row


def test_second_order_needs_the_context():
    torch.manual_seed(0)
    head = CRFHead(LabelSpace.of(["A"]), 4)
    states, mask, tags = torch.randn(2, 3, 4), torch.ones(2, 3).bool(), torch.zeros(2, 3).long()
    weight = head.project.weight

    def hessian_row() -> Tensor:
        (first,) = torch.autograd.grad(head.loss(states, mask, tags).sum(), weight, create_graph=True)
        return torch.autograd.grad(first.square().sum(), weight)[0]

    with pytest.raises(SetupError, match="no second derivative"):
        hessian_row()
    with double_backward():
        assert hessian_row().abs().sum() > 0


def test_make_decoder_names_the_choices():
    assert isinstance(make_head("crf", LabelSpace.of(["A"]), 4), CRFHead)
    with pytest.raises(ConfigError, match="did you mean 'softmax'"):
        make_head("sofmax", LabelSpace.of(["A"]), 4)  # type: ignore[arg-type]
