"""The span head against enumeration, flat and with entities that overlap."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from nershift.data.spans import Sentence, Span
from nershift.errors import DataError
from nershift.heads.base import pad_targets
from nershift.heads.span import SpanHead, SpanSettings, flat

TYPES = ("LOC", "PER")
MASK = torch.tensor([[True] * 4, [True, True, False, False]])


def make(overlapping: bool = False, width: int = 3) -> tuple[SpanHead, torch.Tensor]:
    torch.manual_seed(0)
    head = SpanHead(TYPES, 6, SpanSettings(max_width=width, hidden=8, overlapping=overlapping))
    with torch.no_grad():  # so that some spans are likely
        head.project.bias.zero_()
        head.project.weight.mul_(4)
    return head.eval(), torch.randn(2, 4, 6)


def chance(head: SpanHead, states: torch.Tensor, span: Span) -> float:
    """From the definition: first token, last token and width, one layer, one logistic."""
    hidden = head.first(states[span.start]) + head.last(states[span.end - 1])
    hidden = torch.tanh(hidden + head.width.weight[span.end - span.start - 1])
    return float(torch.sigmoid(head.project(hidden)[TYPES.index(span.label)]))


def every_span(length: int, width: int) -> list[Span]:
    pairs = itertools.combinations(range(length + 1), 2)
    return [Span(a, b, t) for a, b in pairs if b - a <= width for t in TYPES]


@torch.no_grad()
def test_confidences_and_loss_follow_the_definition() -> None:
    head, states = make()
    gold = [Sentence.of(list("abcd"), [(0, 2, "PER"), (3, 4, "LOC")]), Sentence.of(list("ab"), [(1, 2, "LOC")])]
    loss = head.loss(states, MASK, pad_targets([head.targets(s) for s in gold], MASK))
    for row, sentence in enumerate(gold):
        spans = every_span(len(sentence), 3)
        chances = [chance(head, states[row], span) for span in spans]
        given = head.confidences(states, MASK, [spans if i == row else [] for i in range(2)])[row]
        assert given == pytest.approx(chances, abs=1e-5)
        expected = -sum(math.log(c if s in sentence.spans else 1 - c) for s, c in zip(spans, chances, strict=True))
        assert float(loss[row]) == pytest.approx(expected, abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("overlapping", [False, True])
def test_prediction_takes_likely_spans(overlapping: bool) -> None:
    head, states = make(overlapping)
    for row, length in enumerate((4, 2)):
        likely = {s: chance(head, states[row], s) for s in every_span(length, 3)}
        likely = {s: c for s, c in likely.items() if c > 0.5}
        found = head.predict(states, MASK)[row]
        assert likely
        if overlapping:
            assert found == sorted(likely)
        else:
            assert found == flat([(c, s) for s, c in likely.items()])
            assert all(a.end <= b.start for a, b in itertools.pairwise(found))


@torch.no_grad()
def test_probabilities_of_all_answers_add_up() -> None:
    """With overlaps allowed an answer is any set of spans: exp(-surprise) over all of them is 1."""
    head, states = make(overlapping=True, width=2)
    short = torch.tensor([[True, True]])
    spans = every_span(2, 2)
    answers = [c for n in range(len(spans) + 1) for c in itertools.combinations(spans, n)]
    total = sum(math.exp(-float(head.surprise(states[:1, :2], short, [list(answer)])[0])) for answer in answers)
    assert total == pytest.approx(1.0, abs=1e-4)


def test_what_lies_under_padding_has_no_effect() -> None:
    head, states = make()
    targets = pad_targets([head.targets(Sentence.of(list("abcd"))), head.targets(Sentence.of(list("ab")))], MASK)
    moved = torch.where(MASK[..., None], states, states + 9)
    assert torch.allclose(head.loss(states, MASK, targets), head.loss(moved, MASK, targets))
    assert head.predict(states, MASK) == head.predict(moved, MASK)


def test_entities_it_cannot_learn_are_told() -> None:
    head, _ = make(width=2)
    wide = Sentence.of(list("abcd"), [(0, 3, "LOC")])
    assert head.targets(wide).sum() == 0
    assert "1 of 1 training entities are wider than head.options.max_width (2 tokens; the widest has 3)" in (
        head.out_of_reach([wide])
    )
    assert not head.out_of_reach([Sentence.of(list("ab"), [(0, 2, "LOC")])])
    nested = Sentence.of(list("abcd"), [(0, 2, "LOC"), (1, 2, "PER")], nested=True)
    with pytest.raises(DataError, match="not told that entities may overlap"):
        head.targets(nested)
    assert make(overlapping=True)[0].targets(nested).sum() == 2
    with pytest.raises(DataError, match="'LOCC' is not in the label set"):
        head.targets(Sentence.of(list("a"), [(0, 1, "LOCC")]))
