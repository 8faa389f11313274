"""What results keep of a run's mistakes."""

from __future__ import annotations

import json

from experiments.error_analysis import analysis, summarise_errors
from nershift.data.spans import Sentence, Span
from nershift.evaluation.error_analysis import analyse

GOLD = [
    Sentence.of(["Ada", "left"], [(0, 1, "PER")]),
    Sentence.of(["Rome", "fell"], [(0, 1, "LOC")]),
    Sentence.of(["In", "Rome"], [(1, 2, "LOC")]),
    Sentence.of(["Rome", "fell"], [(0, 1, "LOC")]),
]
FOUND = [
    GOLD[0].with_spans([Span(0, 1, "PER", 0.9)]),
    GOLD[1].with_spans([Span(0, 1, "PER", 0.4)]),
    GOLD[2].with_spans([]),
    GOLD[3].with_spans([Span(0, 1, "PER", 0.4)]),
]


def test_numbers_survive_and_words_are_not_kept() -> None:
    kept = json.loads(json.dumps(summarise_errors(GOLD, FOUND, GOLD[:1])))
    assert not {"Ada", "Rome", "fell"} & set(json.dumps(kept).replace('"', " ").split())
    whole, again = analyse(GOLD, FOUND, GOLD[:1], 6), analysis(kept, GOLD)
    assert (again.kinds, again.confusions, again.seen, again.unseen) == (
        whole.kinds, whole.confusions, whole.seen, whole.unseen,
    )  # fmt: skip
    assert [(e.tokens, e.outcomes) for e in again.examples] == [(e.tokens, e.outcomes) for e in whole.examples]


def test_examples_need_the_corpus_as_it_was() -> None:
    kept = summarise_errors(GOLD, FOUND, ())
    assert analysis(kept, None).examples == ()
    changed = [GOLD[0], *GOLD[:1], *GOLD[2:]]  # sentence 1 has other words now
    left = {e.tokens for e in analysis(kept, changed).examples}
    assert left == {GOLD[0].tokens, GOLD[2].tokens}
    assert analysis(kept, GOLD[:1]).seen is None
