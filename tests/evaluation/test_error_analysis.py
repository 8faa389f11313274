"""Error kinds on worked examples, and their sums on random spans."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from nershift.data.labels import tags_to_spans
from nershift.data.spans import Sentence, Span
from nershift.evaluation.error_analysis import Analysis, analyse, match
from nershift.evaluation.metrics import Counts, score

TAGS = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])


def kinds(gold: list[Span], pred: list[Span]) -> list[str]:
    return [o.kind for o in match(gold, pred)]


def test_one_of_each() -> None:
    gold = [Span(0, 2, "PER"), Span(3, 4, "LOC"), Span(5, 7, "ORG"), Span(8, 10, "PER"), Span(11, 12, "LOC")]
    pred = [Span(0, 2, "PER"), Span(3, 4, "ORG"), Span(5, 6, "ORG"), Span(9, 11, "LOC"), Span(13, 14, "PER")]
    assert kinds(gold, pred) == ["correct", "type", "border", "both", "missed", "spurious"]


def test_each_span_is_used_once() -> None:
    # one long prediction over two gold spans: the larger overlap gets it, the other is missed
    outcomes = match([Span(0, 1, "PER"), Span(1, 3, "PER")], [Span(0, 3, "PER")])
    assert [(o.kind, o.gold and o.gold.start) for o in outcomes] == [("missed", 0), ("border", 1)]
    # two predictions inside one gold span: same type wins over other type
    outcomes = match([Span(0, 4, "PER")], [Span(0, 2, "LOC"), Span(2, 4, "PER")])
    assert [(o.kind, o.pred and o.pred.start) for o in outcomes] == [("border", 2), ("spurious", 0)]


@given(st.lists(st.lists(st.tuples(TAGS, TAGS), min_size=1, max_size=8), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_sums_agree_with_the_scores(rows: list[list[tuple[str, str]]]) -> None:
    gold = [Sentence.of(["w"] * len(r), tags_to_spans([g for g, _ in r])) for r in rows]
    pred = [tags_to_spans([p for _, p in r]) for r in rows]
    scores, made = score(gold, pred), analyse(gold, pred, examples=3)
    total = made.totals
    assert total["correct"] == scores.micro.correct
    assert sum(total[k] for k in ("correct", "type", "border", "both", "missed")) == scores.micro.support
    assert sum(total[k] for k in ("correct", "type", "border", "both", "spurious")) == scores.micro.predicted
    assert sum(made.confusions.values()) == total["type"] + total["both"]
    for label, counts in scores.by_type.items():
        kinds_of = made.kinds.get(label, Counter())
        assert kinds_of["correct"] == counts.correct
        assert sum(kinds_of[k] for k in ("correct", "type", "border", "both", "missed")) == counts.support
    assert Analysis.from_dict(made.to_dict()).to_dict() == made.to_dict()
    assert len(made.examples) <= 3


def test_seen_and_unseen() -> None:
    train = [Sentence.of(["in", "New", "York"], [(1, 3, "LOC")])]
    gold = [Sentence.of(["New", "York", "beat", "Ada"], [(0, 2, "ORG"), (3, 4, "PER")])]
    pred = [[Span(0, 2, "ORG"), Span(2, 3, "PER")]]
    made = analyse(gold, pred, train)
    assert made.seen == Counts(correct=1, predicted=1, support=1)
    assert made.unseen == Counts(correct=0, predicted=1, support=1)
    assert analyse(gold, pred).seen is None


def test_worst_confusions_come_first() -> None:
    gold = [Sentence.of(["a", "b", "c"], [(0, 1, "PER"), (1, 2, "PER"), (2, 3, "LOC")])]
    pred = [[Span(0, 1, "LOC"), Span(1, 2, "LOC"), Span(2, 3, "ORG")]]
    assert analyse(gold, pred).worst() == [("PER", "LOC", 2), ("LOC", "ORG", 1)]
    assert analyse(gold, pred).worst(1) == [("PER", "LOC", 2)]


def test_examples_cover_different_kinds() -> None:
    gold = [Sentence.of(["x", "y"], [(0, 1, "PER")], place=f"f:{i}") for i in range(20)]
    pred: list[list[Span]] = [[] for _ in gold]
    pred[13] = [Span(0, 1, "LOC")]
    pred[17] = [Span(0, 2, "PER")]
    shown = analyse(gold, pred, examples=3).examples
    assert {o.kind for e in shown for o in e.outcomes} == {"missed", "type", "border"}
