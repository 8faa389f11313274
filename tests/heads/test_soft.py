"""Soft targets of heads and the losses that learn from them, against the enumeration of all answers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nershift.data.labels import SCHEMES, LabelSpace, Scheme
from nershift.errors import SetupError
from nershift.heads.base import Head, make_head
from nershift.heads.crf.head import CRFHead
from nershift.heads.soft import SoftTargets, mean_row

LENGTHS = (4, 1, 3)
SIZE = 6
Paths = dict[tuple[int, ...], float]


def made(kind: str, types: list[str], scheme: Scheme = "BIOES", **settings: Any) -> Head:
    head = make_head(kind, LabelSpace.of(types, scheme), SIZE, settings)
    with torch.no_grad():
        for p in head.parameters():
            p.normal_()
    return head


def states_and_mask() -> tuple[Tensor, Tensor]:
    states = torch.randn(len(LENGTHS), max(LENGTHS), SIZE)
    return states, torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


def probabilities(head: CRFHead, states: Tensor) -> Paths:
    """Of every path of one sentence whose states are ``[L, H]``, by brute force."""
    emissions, (steps, starts, ends) = head.project(states).detach(), head.predicted_chain()
    scores = {}
    for path in itertools.product(range(len(head.space)), repeat=len(emissions)):
        total = starts[path[0]] + ends[path[-1]] + sum(emissions[t, tag] for t, tag in enumerate(path))
        scores[path] = (
            float((total + sum(steps[a, b] for a, b in itertools.pairwise(path))).detach()) / head.temperature
        )
    top = max(scores.values())
    norm = sum(math.exp(s - top) for s in scores.values())
    return {path: math.exp(s - top) / norm for path, s in scores.items()}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_soft_loss_of_a_chain_is_the_cross_entropy_over_all_paths(scheme: Scheme) -> None:
    torch.manual_seed(5)
    types = ["A", "B"] if scheme in ("BIO", "IOB1") else ["A"]
    teacher, student = (made("crf", types, scheme) for _ in range(2))
    teacher.temperature = 1.7
    states, mask = states_and_mask()
    theirs = torch.randn_like(states)  # the two have encoders of their own
    soft = teacher.soft_targets(theirs, mask, student)
    found = student.soft_loss(states, mask, soft)
    for i, length in enumerate(LENGTHS):
        p, q = probabilities(teacher, theirs[i, :length]), probabilities(student, states[i, :length])
        assert float(found[i]) == pytest.approx(-sum(p[path] * math.log(q[path]) for path in p if p[path]), abs=2e-4)


def test_expected_steps_are_those_of_all_paths() -> None:
    torch.manual_seed(6)
    teacher = made("crf", ["A"])
    states, mask = states_and_mask()
    soft = teacher.soft_targets(states, mask, teacher)
    legal = teacher._steps.nonzero().tolist()
    for i, length in enumerate(LENGTHS):
        p = probabilities(teacher, states[i, :length])
        for t in range(max(LENGTHS)):
            for tag in range(len(teacher.space)):
                expected = sum(v for path, v in p.items() if path[t] == tag) if t < length else 0.0
                assert float(soft.tokens[i, t, tag]) == pytest.approx(expected, abs=1e-5)
        for value, step in zip(soft.whole[i].tolist(), legal, strict=True):
            expected = sum(v * list(itertools.pairwise(path)).count(tuple(step)) for path, v in p.items())
            assert value == pytest.approx(expected, abs=1e-5)


def test_gradient_of_the_soft_loss_follows_finite_differences() -> None:
    torch.manual_seed(7)
    teacher, student = (made("crf", ["A"]).double() for _ in range(2))
    states, mask = states_and_mask()
    states = states.double()
    soft = teacher.soft_targets(states, mask, student)
    student.soft_loss(states, mask, soft).sum().backward()
    with torch.no_grad():
        for p in student.parameters():
            for i in range(0, p.numel(), 5):
                flat, before = p.view(-1), float(p.view(-1)[i])
                sides = []
                for step in (1e-5, -1e-5):
                    flat[i] = before + step
                    sides.append(float(student.soft_loss(states, mask, soft).sum()))
                flat[i] = before
                assert float(p.grad.view(-1)[i]) == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-5)


@pytest.mark.parametrize("kind", ["crf", "softmax", "span"])
def test_a_student_equal_to_its_teacher_has_no_gradient(kind: str) -> None:
    torch.manual_seed(8)
    head = made(kind, ["A", "B"])
    states, mask = states_and_mask()
    head.soft_loss(states, mask, head.soft_targets(states, mask, head)).sum().backward()
    assert all(float(p.grad.abs().max()) < 1e-4 for p in head.parameters() if p.grad is not None)


@pytest.mark.parametrize("kind", ["crf", "softmax", "span"])
def test_a_sure_teacher_teaches_like_gold_labels(kind: str) -> None:
    """At a low temperature the soft loss is the loss of what the teacher predicts."""
    torch.manual_seed(9)
    teacher, student = (made(kind, ["A", "B"]) for _ in range(2))
    if kind == "softmax":
        teacher.constrained = False  # type: ignore[assignment]
    states, mask = states_and_mask()
    soft = teacher.soft_targets(states, mask, student, temperature=1e-3)
    if kind == "span":
        hard = (teacher.scores(states) > 0).float()
    else:
        hard = torch.zeros(mask.shape, dtype=torch.long)
        for i, tags in enumerate(teacher.decode(states, mask)):
            hard[i, : len(tags)] = torch.tensor(tags)
    expected = student.loss(states, mask, hard)
    assert student.soft_loss(states, mask, soft).tolist() == pytest.approx(expected.tolist(), rel=1e-3)


def test_softmax_and_span_losses_are_sums_of_cross_entropies() -> None:
    torch.manual_seed(10)
    states, mask = states_and_mask()
    teacher, student = (made("softmax", ["A"]) for _ in range(2))
    soft = teacher.soft_targets(states, mask, student)
    p, q = torch.softmax(teacher.project(states), -1), torch.log_softmax(student.project(states), -1)
    expected = [float(-(p[i, :n] * q[i, :n]).sum()) for i, n in enumerate(LENGTHS)]
    assert student.soft_loss(states, mask, soft).tolist() == pytest.approx(expected, rel=1e-5)
    teacher, student = (made("span", ["A"], max_width=2).double() for _ in range(2))
    states = 0.3 * states.double()  # else 1 - q is 0
    soft = teacher.soft_targets(states, mask, student)
    p, q = teacher.scores(states).sigmoid(), student.scores(states).sigmoid()
    for i, n in enumerate(LENGTHS):
        inside = [(t, w) for t in range(n) for w in range(2) if t + w < n]
        total = sum(
            -float(p[i, t, w] * q[i, t, w].log() + (1 - p[i, t, w]) * (1 - q[i, t, w]).log()) for t, w in inside
        )
        assert float(student.soft_loss(states, mask, soft)[i]) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("kind", ["crf", "softmax", "span"])
def test_types_stand_in_the_students_order_and_others_are_not_told(kind: str) -> None:
    torch.manual_seed(11)
    teacher, student = made(kind, ["A", "B", "C"]), made(kind, ["A", "C"])
    teacher.restrict(["A", "C"])
    states, mask = states_and_mask()
    soft = teacher.soft_targets(states, mask, student)
    if kind != "span":
        assert soft.tokens.sum(-1)[mask].tolist() == pytest.approx([1.0] * sum(LENGTHS), abs=1e-5)
    assert torch.isfinite(student.soft_loss(states, mask, soft)).all()
    with pytest.raises(SetupError):
        student.soft_targets(states, mask, teacher)  # the other way round a type is missing


def test_a_mean_over_teachers_is_their_mixture() -> None:
    torch.manual_seed(12)
    teachers, student = [made("crf", ["A"]) for _ in range(3)], made("crf", ["A"])
    states, mask = states_and_mask()
    told = [teacher.soft_targets(states, mask, student) for teacher in teachers]
    rows = [mean_row(rows) for rows in zip(*(soft.rows(mask) for soft in told), strict=True)]
    mixture = SoftTargets.of_rows(rows, mask)
    each = [student.soft_loss(states, mask, soft) for soft in told]
    expected = torch.stack(each).mean(0)
    assert student.soft_loss(states, mask, mixture).tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_rows_are_whole_batches_again() -> None:
    torch.manual_seed(13)
    head = made("crf", ["A"])
    states, mask = states_and_mask()
    soft = head.soft_targets(states, mask, head)
    again = SoftTargets.of_rows(soft.rows(mask), mask)
    assert torch.equal(again.tokens, soft.tokens)
    assert torch.equal(again.whole, soft.whole)
    assert all(
        isinstance(tokens, np.ndarray) and len(tokens) == n
        for (tokens, _), n in zip(again.rows(mask), LENGTHS, strict=True)
    )


def test_a_head_without_soft_targets_says_what_to_do() -> None:
    head = made("prototypes", ["A"])
    states, mask = states_and_mask()
    assert not head.takes_soft
    with pytest.raises(SetupError, match="hard"):
        Head.soft_loss(head, states, mask, head.soft_targets(states, mask, head))
