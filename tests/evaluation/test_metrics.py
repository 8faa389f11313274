"""Span scores against seqeval, a conlleval port and hand-worked counts."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nershift.data.labels import spans_to_tags, tags_to_spans
from nershift.data.spans import Sentence, Span
from nershift.errors import DataError
from nershift.evaluation.metrics import (
    Counts,
    Scores,
    score,
    sentence_counts,
    token_scores,
)

BIO = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
BIOES = [*BIO, "E-PER", "S-PER", "E-LOC", "S-LOC"]


def score_tags(gold: list[list[str]], pred: list[list[str]]) -> Scores:
    sentences = [Sentence(("",) * len(tags), tuple(tags_to_spans(tags))) for tags in gold]
    return score(sentences, [tags_to_spans(tags) for tags in pred])


def tag_pairs(tags: list[str]) -> st.SearchStrategy[list[tuple[list[str], list[str]]]]:
    one = st.lists(st.tuples(st.sampled_from(tags), st.sampled_from(tags)), min_size=1, max_size=9)
    return st.lists(one.map(lambda pairs: tuple(map(list, zip(*pairs, strict=True)))), min_size=1, max_size=4)


def conlleval(gold: list[list[str]], pred: list[list[str]]) -> tuple[int, int, int]:
    """Correct, found and gold chunks by the chunk-border rules of the CoNLL shared task scorer.

    Works on running state alone, never on a list of spans: a chunk is correct when both sides start it and
    end it at the same tokens with the same type.
    """

    def ends(before: str, tag: str, before_type: str, kind: str) -> bool:
        if (before, tag) in {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("B", "S"), ("I", "S")}:
            return True
        return before in ("E", "S") or (before != "O" and before_type != kind)

    def starts(before: str, tag: str, before_type: str, kind: str) -> bool:
        if tag in ("B", "S"):
            return True
        if tag in ("I", "E") and before in ("O", "E", "S"):
            return True
        return tag != "O" and before_type != kind

    correct = found = right = 0
    for gold_tags, pred_tags in zip(gold, pred, strict=True):
        inside = False
        g_before, g_type_before, p_before, p_type_before = "O", "", "O", ""
        for g, p in zip([*gold_tags, "O"], [*pred_tags, "O"], strict=True):
            (g, _, g_type), (p, _, p_type) = g.partition("-"), p.partition("-")
            g_ends, p_ends = (
                ends(g_before, g, g_type_before, g_type),
                ends(p_before, p, p_type_before, p_type),
            )
            g_starts, p_starts = (
                starts(g_before, g, g_type_before, g_type),
                starts(p_before, p, p_type_before, p_type),
            )
            if inside and g_ends and p_ends:
                correct, inside = correct + 1, False
            elif inside and (g_ends != p_ends or g_type != p_type):
                inside = False
            if g_starts and p_starts and g_type == p_type:
                inside = True
            right, found = right + g_starts, found + p_starts
            g_before, g_type_before, p_before, p_type_before = g, g_type, p, p_type
    return correct, found, right


@given(tag_pairs(BIO))
@settings(max_examples=200, deadline=None)
@pytest.mark.filterwarnings("ignore")
def test_agrees_with_seqeval(pairs: list[tuple[list[str], list[str]]]) -> None:
    from seqeval.metrics import classification_report

    gold, pred = [list(p) for p in zip(*pairs, strict=True)]
    ours = score_tags(gold, pred)
    if not ours.by_type:
        return
    theirs = classification_report(gold, pred, output_dict=True, zero_division=0)
    for label, counts in ours.by_type.items():
        assert counts.precision == pytest.approx(theirs[label]["precision"])
        assert counts.recall == pytest.approx(theirs[label]["recall"])
        assert counts.f1 == pytest.approx(theirs[label]["f1-score"])
        assert counts.support == theirs[label]["support"]
    assert ours.precision == pytest.approx(theirs["micro avg"]["precision"])
    assert ours.recall == pytest.approx(theirs["micro avg"]["recall"])
    assert ours.f1 == pytest.approx(theirs["micro avg"]["f1-score"])
    assert ours.macro_f1 == pytest.approx(theirs["macro avg"]["f1-score"])


@pytest.mark.parametrize("tags", [BIO, BIOES], ids=["BIO", "BIOES"])
def test_agrees_with_conlleval(tags: list[str]) -> None:
    @given(tag_pairs(tags))
    @settings(max_examples=300, deadline=None)
    def check(pairs: list[tuple[list[str], list[str]]]) -> None:
        gold, pred = [list(p) for p in zip(*pairs, strict=True)]
        micro = score_tags(gold, pred).micro
        assert (micro.correct, micro.predicted, micro.support) == conlleval(gold, pred)

    check()


@given(tag_pairs(BIO))
@settings(max_examples=50, deadline=None)
def test_same_score_in_every_scheme(pairs: list[tuple[list[str], list[str]]]) -> None:
    gold, pred = [list(p) for p in zip(*pairs, strict=True)]

    def recoded(tags: list[str], scheme: str) -> list[str]:
        return spans_to_tags(tags_to_spans(tags), len(tags), scheme)  # type: ignore[arg-type]

    expected = score_tags(gold, pred)
    for scheme in ("BIO", "IOB1", "BIOES", "BILOU"):
        assert score_tags([recoded(t, scheme) for t in gold], [recoded(t, scheme) for t in pred]) == expected


GOLD = [
    Sentence.of(["Ada", "Lovelace", "left", "London"], [(0, 2, "PER"), (3, 4, "LOC")]),
    Sentence.of(["Acme", "hired", "Bob"], [(0, 1, "ORG"), (2, 3, "PER")]),
    Sentence.of(["nothing", "here"]),
]
PRED = [
    [Span(0, 1, "PER"), Span(3, 4, "LOC", 0.7)],  # border wrong; right whatever the score
    [Span(0, 1, "PER"), Span(2, 3, "PER")],  # type wrong; right
    [Span(1, 2, "MISC")],  # from nowhere
]


def test_hand_worked() -> None:
    made = score(GOLD, PRED)
    assert made.micro == Counts(correct=2, predicted=5, support=4)
    assert made.precision == pytest.approx(2 / 5)
    assert made.recall == pytest.approx(2 / 4)
    assert made.f1 == pytest.approx(4 / 9)
    assert made.by_type == {
        "LOC": Counts(1, 1, 1),
        "MISC": Counts(0, 1, 0),
        "ORG": Counts(0, 0, 1),
        "PER": Counts(1, 3, 2),
    }
    assert made.macro_f1 == pytest.approx((1 + 0 + 0 + 2 / 5) / 4)
    assert made.sentences == 3


def test_hand_worked_tokens() -> None:
    made = token_scores(GOLD, PRED)
    assert made.by_type["PER"] == Counts(correct=2, predicted=3, support=3)
    assert made.micro == Counts(correct=3, predicted=5, support=5)


def test_sentence_counts_add_up() -> None:
    rows = sentence_counts(GOLD, PRED)
    assert rows.tolist() == [[1, 2, 2], [1, 2, 2], [0, 1, 0]]
    assert sentence_counts([], []).shape == (0, 3)


def test_nothing_over_nothing_is_zero() -> None:
    made = score([Sentence.of(["a"])], [[]])
    assert (made.precision, made.recall, made.f1, made.macro_f1) == (0, 0, 0, 0)


def test_dict_round_trip() -> None:
    made = score(GOLD, PRED)
    assert Scores.from_dict(made.to_dict()) == made
    assert made.to_dict()["by_type"]["PER"]["f1"] == pytest.approx(2 / 5)


def test_refuses_other_tokens() -> None:
    other = [
        GOLD[0],
        Sentence.of(["Acme", "fired", "Bob"], place="pred.conll:7"),
        GOLD[2],
    ]
    with pytest.raises(DataError, match=r"pred\.conll:7: sentence 2.*token 2.*'fired'"):
        score(GOLD, other)
    shorter = [GOLD[0], GOLD[1], Sentence.of(["nothing"])]
    with pytest.raises(DataError, match=r"sentence 3.*token 2: found the end"):
        score(GOLD, shorter)


def test_refuses_other_lengths_and_bad_spans() -> None:
    with pytest.raises(DataError, match="3 gold sentences but 2"):
        score(GOLD, PRED[:2])
    with pytest.raises(DataError, match="outside"):
        score(GOLD[2:], [[Span(0, 3, "PER")]])


def test_agrees_with_seqeval_on_a_real_corpus() -> None:
    """Real tags with seeded noise, in IOB2 as read from the file."""
    folder = Path(os.environ.get("NERSHIFT_DATA") or Path(__file__).parents[2].parent / "shared" / "data")
    path = folder / "conll2003_en" / "test.conll.gz"
    if not path.exists():
        pytest.skip("the corpus is not on this machine")
    from seqeval.metrics import f1_score, precision_score, recall_score

    with gzip.open(path, "rt", encoding="utf-8") as file:
        blocks = file.read().strip("\n").split("\n\n")
    gold = [[line.rsplit("\t", 1)[1] for line in block.split("\n")] for block in blocks]
    rng = random.Random(5)
    kinds = sorted({tag for tags in gold for tag in tags})
    pred = [[tag if rng.random() > 0.1 else rng.choice(kinds) for tag in tags] for tags in gold]
    made = score_tags(gold, pred)
    assert made.micro.support > 5000
    assert made.precision == pytest.approx(precision_score(gold, pred))
    assert made.recall == pytest.approx(recall_score(gold, pred))
    assert made.f1 == pytest.approx(f1_score(gold, pred))
    assert (made.micro.correct, made.micro.predicted, made.micro.support) == conlleval(gold, pred)
