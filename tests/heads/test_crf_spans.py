"""Probabilities of spans by one forward-backward run, against one run for each span."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest
import torch
from torch import Tensor

import ruled_out
from nershift.data.labels import SCHEMES, LabelSpace, Scheme
from nershift.data.spans import Span
from nershift.heads.crf import spans as crf_spans
from nershift.heads.crf.head import CRFHead
from nershift.heads.crf.kernels import viterbi
from nershift.heads.crf.spans import span_probabilities

LENGTHS = (9, 1, 5, 12)
MASK = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


def case(scheme: Scheme, scale: float, seed: int = 0) -> tuple[LabelSpace, list[Tensor]]:
    torch.manual_seed(seed)
    head = CRFHead(LabelSpace.of(["LOC", "PER"], scheme), 3)
    with torch.no_grad():
        for scores in head.scores():
            scores.normal_()
    chain = [part.detach().double() for part in head.chain()]
    return head.space, [torch.randn(*MASK.shape, len(head.space)).double() * scale, *chain]


def ours(space: LabelSpace, scores: list[Tensor], spans: list[list[Span]]) -> list[list[float]]:
    return span_probabilities(*(x.numpy() for x in scores), MASK.numpy(), space, spans)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("scale", [1.0, 60.0])  # the latter is beyond what probability space can hold
def test_every_span_has_the_probability_of_a_run_of_its_own(scheme: Scheme, scale: float) -> None:
    space, scores = case(scheme, scale)
    spans = [[Span(i, j, t) for i in range(n) for j in range(i + 1, n + 1) for t in space.types] for n in LENGTHS]
    spans[2] = []
    found, plain = ours(space, scores, spans), ruled_out.span_probabilities(scores, MASK, space, spans)
    assert max(max(row, default=0) for row in found) > 0.2
    for mine, other in zip(found, plain, strict=True):
        assert mine == pytest.approx(other, abs=1e-9)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_neither_looking_in_portions_nor_log_space_changes_a_probability(
    scheme: Scheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, scores = case(scheme, 2.0, seed=1)
    spans = [[Span(i, min(i + 3, n), t) for i in range(n) for t in space.types] for n in LENGTHS]
    whole = ours(space, scores, spans)
    monkeypatch.setattr(crf_spans, "_TOGETHER", 4)
    in_portions = ours(space, scores, spans)
    monkeypatch.setattr("nershift.heads.crf.arrays._stride", lambda spread: 0)  # as for scores too far apart
    in_logs = ours(space, scores, spans)
    for row, one, other in zip(whole, in_portions, in_logs, strict=True):
        assert row == pytest.approx(one, abs=1e-12)
        assert row == pytest.approx(other, abs=1e-9)


def test_a_tag_without_a_way_on_is_impossible_not_undefined() -> None:
    space, scores = case("BIO", 1.0)
    scores[1][space.index["I-LOC"]] = -np.inf  # nothing may follow
    scores[0][:, :, space.index["B-PER"]] = -np.inf
    spans = [[Span(0, 3, "LOC"), Span(0, 2, "PER"), Span(1, 2, "LOC")], [], [], []]
    found = ours(space, scores, spans)[0]
    assert found[:2] == [0.0, 0.0]
    assert 0 < found[2] < 1


def test_memory_grows_with_length_and_tags_not_with_spans() -> None:
    """A text of 38 kB with an entity in every third word once asked for 9 GiB."""
    length, random_numbers = 7000, np.random.default_rng(0)
    space = LabelSpace.of(["A", "B"])
    scores = [random_numbers.normal(size=(1, length, len(space)))]
    scores += [x.detach().numpy() for x in CRFHead(space, 3).chain()]
    mask, chance = np.ones((1, length), bool), random.Random(0)
    spans = [Span(i, i + chance.choice((1, 2, 3)), chance.choice("AB")) for i in range(length - 3)]
    spans.append(Span(0, length, "A"))

    def peak(asked: list[Span]) -> int:
        tracemalloc.start()
        chances = span_probabilities(*scores, mask, space, [asked])[0]
        assert all(0 <= c <= 1 for c in chances)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    few, many = peak(spans[:10]), peak(spans)
    table = 8 * length * len(space)  # bytes of one number for each tag of each token
    assert few < 20 * table
    assert many < 2 * few + 1000 * len(spans)


def test_entities_that_decoding_finds_have_the_confidence_of_a_run_of_their_own() -> None:
    space, scores = case("BIOES", 2.0)
    spans = [space.decode(row[:n]) for row, n in zip(viterbi(*scores, MASK)[0].tolist(), LENGTHS, strict=True)]
    assert sum(map(len, spans)) > 2
    plain = ruled_out.span_probabilities([x.float() for x in scores], MASK, space, spans, fast=True)
    for mine, other in zip(ours(space, scores, spans), plain, strict=True):
        assert mine == pytest.approx(other, abs=1e-5)
