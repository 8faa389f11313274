"""Agreement of two annotators, against numbers worked out by hand and against scikit-learn."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nershift.data.spans import Sentence
from nershift.errors import DataError
from nershift.evaluation.agreement import agreement, kappa

TOKENS = [f"w{i}" for i in range(10)]


def test_by_hand() -> None:
    """Of ten tokens one side has PER on 0-2 and LOC on 5; the other PER on 0-1, PER on 5, LOC on 8."""
    one = [Sentence.of(TOKENS, [(0, 3, "PER"), (5, 6, "LOC")])]
    other = [Sentence.of(TOKENS, [(0, 2, "PER"), (5, 6, "PER"), (8, 9, "LOC")])]
    found = agreement(one, other)
    assert (found.spans.micro.correct, found.spans.micro.support, found.spans.micro.predicted) == (0, 2, 3)
    # all: 7 of 10 alike; expected (3·3 + 1·1 + 6·6)/100 = 0.46
    assert found.kappa == pytest.approx((0.7 - 0.46) / (1 - 0.46))
    # PER: both 2, one alone 1, other alone 1, neither 6; expected (3·3 + 7·7)/100 = 0.58
    assert found.kappa_by_type["PER"] == pytest.approx((0.8 - 0.58) / (1 - 0.58))
    # LOC: one alone 1, other alone 1, neither 8; expected (1·1 + 9·9)/100 = 0.82
    assert found.kappa_by_type["LOC"] == pytest.approx((0.8 - 0.82) / (1 - 0.82))
    assert (found.tokens, found.differing) == (10, (0,))


def annotated(chance: random.Random, sentences: int) -> list[Sentence]:
    out = []
    for _ in range(sentences):
        at, spans = 0, []
        while at < len(TOKENS):
            length = chance.randint(1, 3)
            if at + length <= len(TOKENS) and chance.random() < 0.5:
                spans.append((at, at + length, chance.choice(["PER", "LOC", "ORG"])))
            at += length
        out.append(Sentence.of(TOKENS, spans))
    return out


def labels(sentences: list[Sentence]) -> list[str]:
    rows = []
    for sentence in sentences:
        row = ["O"] * len(sentence)
        for span in sentence.spans:
            row[span.start : span.end] = [span.label] * (span.end - span.start)
        rows += row
    return rows


@pytest.mark.parametrize("seed", range(20))
def test_as_scikit_learn_computes_it(seed: int) -> None:
    cohen = pytest.importorskip("sklearn.metrics").cohen_kappa_score
    chance = random.Random(seed)
    one, other = annotated(chance, 8), annotated(chance, 8)
    found, back = agreement(one, other), agreement(other, one)
    ours, theirs = labels(one), labels(other)
    assert found.kappa == pytest.approx(cohen(ours, theirs))
    for label, value in found.kappa_by_type.items():
        assert value == pytest.approx(cohen([x == label for x in ours], [x == label for x in theirs]))
    assert back.kappa == pytest.approx(found.kappa)
    assert back.spans.f1 == found.spans.f1


def test_where_chance_explains_everything_there_is_no_kappa() -> None:
    bare = [Sentence.of(TOKENS)]
    assert agreement(bare, bare).kappa is None
    full = [Sentence.of(TOKENS, [(0, 10, "PER")])]
    assert agreement(full, full).to_dict()["rows"] == [
        {"type": "PER", "f1": 1.0, "kappa": None, "one": 1, "other": 1, "both": 1},
        {"type": "all", "f1": 1.0, "kappa": None, "one": 1, "other": 1, "both": 1},
    ]
    assert agreement([], []).to_dict()["sentences"] == 0
    assert kappa(np.zeros((2, 2), dtype=np.int64)) is None


def test_a_type_that_one_side_never_uses_agrees_no_more_than_chance() -> None:
    found = agreement([Sentence.of(TOKENS, [(0, 1, "PER")])], [Sentence.of(TOKENS)])
    assert found.kappa_by_type == {"PER": 0.0}
    assert found.to_dict()["rows"][0] == {"type": "PER", "f1": 0.0, "kappa": 0.0, "one": 1, "other": 0, "both": 0}


def test_other_tokens_are_refused() -> None:
    with pytest.raises(DataError, match="tokens differ"):
        agreement([Sentence.of(["a"])], [Sentence.of(["b"])])
