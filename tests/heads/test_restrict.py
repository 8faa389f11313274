"""Types that a head may not predict, against enumeration: as if their tags had no score at all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from nershift.data.labels import LabelSpace
from nershift.data.spans import Span
from nershift.heads.base import Head, head_from, make_head
from nershift.heads.crf.head import CRFHead
from nershift.heads.span import SpanHead
from nershift.heads.tags import TagHead
from nershift.tagger.onnx.head import ArrayHead

SIZE, LENGTHS = 5, (4, 2)
SHOWN = ["A", "C"]
SPACES = [LabelSpace.of("ABC", "BIO"), LabelSpace.of("ABC", "IOB1"), LabelSpace.of("ABC", "BIOES")]
MASK = torch.arange(4) < torch.tensor(LENGTHS)[:, None]


def made(kind: str, space: LabelSpace, seed: int = 0) -> Head:
    torch.manual_seed(seed)
    head = make_head(kind, space, SIZE).requires_grad_(False)
    for p in head.parameters():
        torch.nn.init.uniform_(p, -1, 1)
    return head


def some_states(seed: int = 1) -> Tensor:
    return 2 * torch.randn(2, 4, SIZE, generator=torch.Generator().manual_seed(seed))


def paths(space: LabelSpace, length: int) -> Iterator[tuple[int, ...]]:
    """All legal paths over the tags of the types that are shown."""
    tags = [i for i, tag in enumerate(space.tags) if tag == "O" or tag[2:] in SHOWN]
    for path in itertools.product(tags, repeat=length):
        steps = all(space.legal_steps[a][b] for a, b in itertools.pairwise(path))
        if steps and space.legal_starts[path[0]] and space.legal_ends[path[-1]]:
            yield path


def path_score(head: TagHead, states: Tensor, path: tuple[int, ...]) -> float:
    emissions = head.project(states)
    total = sum(float(emissions[i, tag]) for i, tag in enumerate(path))
    if isinstance(head, CRFHead):
        total += sum(float(head.transitions[a, b]) for a, b in itertools.pairwise(path))
        total += float(head.starts[path[0]]) + float(head.ends[path[-1]])
    return total


@pytest.mark.parametrize("space", SPACES, ids=lambda s: s.scheme)
@pytest.mark.parametrize("kind", ["crf", "softmax", "prototypes"])
def test_tags_are_the_best_among_those_shown(kind: str, space: LabelSpace) -> None:
    hidden = 0
    for seed in range(5):
        head, states = made(kind, space, seed), some_states(seed)
        assert isinstance(head, TagHead)
        free = head.decode(states, MASK)
        head.restrict(SHOWN)
        for b, (length, found) in enumerate(zip(LENGTHS, head.decode(states, MASK), strict=True)):
            assert found == list(max(paths(space, length), key=lambda path: path_score(head, states[b], path)))
            hidden += found != free[b]
        head.restrict(space.types)
        assert head.decode(states, MASK) == free
    assert hidden


@pytest.mark.parametrize("space", SPACES, ids=lambda s: s.scheme)
@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_probabilities_of_a_crf_are_shares_of_the_paths_shown(space: LabelSpace, temperature: float) -> None:
    head, states = made("crf", space), some_states()
    head.restrict(SHOWN)
    head.temperature = temperature
    asked = [[Span(0, 2, "A"), Span(1, 2, "B"), Span(1, 4, "C")], [Span(0, 1, "C")]]
    for b, (length, found) in enumerate(zip(LENGTHS, head.confidences(states, MASK, asked), strict=True)):
        shares = {p: math.exp(path_score(head, states[b], p) / temperature) for p in paths(space, length)}
        for span, chance in zip(asked[b], found, strict=True):
            held = sum(share for path, share in shares.items() if span in space.decode(path))
            assert chance == pytest.approx(held / sum(shares.values()), rel=1e-4, abs=1e-9)


def test_probabilities_of_a_softmax_are_among_the_tags_shown() -> None:
    space, states = SPACES[0], some_states()
    head = made("softmax", space)
    head.restrict(SHOWN)
    shown = [i for i, tag in enumerate(space.tags) if tag == "O" or tag[2:] in SHOWN]
    shares = torch.zeros(4, len(space))
    shares[:, shown] = head.project(states[0])[:, shown].softmax(-1)
    found = head.confidences(states, MASK, [[Span(1, 3, "C"), Span(0, 1, "B")], []])
    expected = shares[1, space.index["B-C"]] * shares[2, space.index["I-C"]]
    assert found[0] == pytest.approx([float(expected), 0.0])


@pytest.mark.parametrize("kind", ["crf", "softmax", "span"])
def test_the_answers_of_a_sentence_have_all_of_the_probability(kind: str) -> None:
    space, states = SPACES[0], some_states()[:1, :2]
    head, mask = made(kind, space), torch.ones(1, 2, dtype=torch.bool)
    head.restrict(SHOWN)
    if kind == "span":
        every = [Span(i, j, t) for i, j in ((0, 1), (1, 2), (0, 2)) for t in SHOWN]
        sets = [list(c) for n in range(len(every) + 1) for c in itertools.combinations(every, n)]
        total = 0.0
        for spans in sets:
            targets = torch.zeros(1, 2, head.settings.max_width, 3)
            for s in spans:
                targets[0, s.start, s.end - s.start - 1, space.types.index(s.label)] = 1
            total += math.exp(-float(head._answer_loss(states, mask, targets)))
    elif kind == "crf":
        answers = {tuple(space.decode(path)) for path in paths(space, 2)}
        total = sum(math.exp(-float(head.surprise(states, mask, [list(a)]))) for a in answers)
    else:  # tokens are independent, so illegal paths have their share
        shown = [i for i, tag in enumerate(space.tags) if tag == "O" or tag[2:] in SHOWN]
        pairs = [torch.tensor([pair]) for pair in itertools.product(shown, repeat=2)]
        total = sum(math.exp(-float(head._answer_loss(states, mask, pair))) for pair in pairs)
    assert total == pytest.approx(1.0, rel=1e-4)


def test_a_span_head_leaves_out_the_types_that_are_not_shown() -> None:
    space, states = SPACES[0], some_states()
    head = made("span", space)
    assert isinstance(head, SpanHead)
    scores, inside = head.scores(states), head._inside(MASK)
    head.overlapping = True
    every = {
        Span(i, i + w + 1, t): (b, float(scores[b, i, w, c]))
        for b, i, w in inside.nonzero().tolist()
        for c, t in enumerate(space.types)
        if scores[b, i, w, c] > 0 and b == 0
    }
    assert {s.label for s in every} == set("ABC")
    head.restrict(SHOWN)
    assert head.predict(states, MASK)[0] == sorted(s for s in every if s.label != "B")
    asked = [[Span(0, 1, "A"), Span(0, 1, "B")], []]
    chances = head.confidences(states, MASK, asked)[0]
    assert chances == pytest.approx([float(scores[0, 0, 0, 0].sigmoid()), 0.0])


@pytest.mark.parametrize("kind", ["crf", "softmax", "span"])
def test_training_does_not_notice(kind: str) -> None:
    space, states = SPACES[0], some_states()
    head, free = made(kind, space), made(kind, space)
    head.restrict(SHOWN)
    gold = torch.zeros(2, 4, 10, 3) if kind == "span" else torch.tensor([[0, 3, 4, 0], [1, 2, 0, 0]])
    assert torch.equal(head.loss(states, MASK, gold), free.loss(states, MASK, gold))


@pytest.mark.parametrize("kind", ["crf", "softmax", "span", "label-aware"])
def test_it_is_saved_with_the_head(kind: str) -> None:
    head = made(kind, SPACES[0])
    assert "predicted_types" not in head.describe()
    head.restrict([*SHOWN, "of no head"])
    again = head_from(head.describe(), SIZE)
    again.load_state_dict(head.state_dict())
    assert again.predicted_types == ("A", "C")
    assert again.types == ("A", "B", "C")
    states = some_states()
    assert again.predict_scored(states, MASK) == head.predict_scored(states, MASK)


@pytest.mark.parametrize("space", SPACES, ids=lambda s: s.scheme)
@pytest.mark.parametrize("kind", ["crf", "softmax"])
def test_without_torch_it_is_the_same(kind: str, space: LabelSpace) -> None:
    head = made(kind, space)
    assert isinstance(head, TagHead)
    head.restrict(SHOWN)
    head.temperature = 1.3
    chain = {name: value.tolist() for name, value in head.chain_scores().items()}
    arrays = ArrayHead(head.describe() | chain)
    for seed in range(5):
        states = some_states(seed)
        ours = arrays.spans(head.project(states).numpy(), MASK.numpy())
        theirs = head.predict_scored(states, MASK)
        assert [[(s.start, s.end, s.label) for s in row] for row in ours] == [
            [(s.start, s.end, s.label) for s in row] for row in theirs
        ]
        flat = [[s.score for row in rows for s in row] for rows in (ours, theirs)]
        np.testing.assert_allclose(*flat, rtol=1e-4)
