"""Which labelled sentences are learned from, against plain rankings."""

from __future__ import annotations

import random

from nershift.data.spans import Sentence, Span
from nershift.methods.teacher_student.quotas import choose


def sentence(*entities: tuple[str, float]) -> Sentence:
    spans = [Span(i, i + 1, label, score) for i, (label, score) in enumerate(entities)]
    return Sentence(("w",) * (len(spans) + 1), tuple(spans))


def test_one_ranking_takes_the_sentences_whose_least_sure_entity_is_surest() -> None:
    rng = random.Random(1)
    tagged = [sentence(*((rng.choice("AB"), rng.random()) for _ in range(rng.randrange(4)))) for _ in range(60)]
    lowest = {i: min(span.score for span in s.spans) for i, s in enumerate(tagged) if s.spans}
    for keep in (0.1, 0.5, 1.0):
        expected = sorted(lowest, key=lambda i: -lowest[i])[: round(keep * len(lowest))]
        chosen = choose(tagged, keep, quotas=False, empty_share=0.0, rng=rng)
        assert chosen == sorted(expected)


def test_quotas_keep_as_much_of_a_type_that_the_teacher_is_less_sure_of() -> None:
    sure, unsure = [sentence(("A", 0.9 + i / 1000)) for i in range(40)], [sentence(("B", i / 100)) for i in range(40)]
    tagged, rng = [*sure, *unsure], random.Random(2)
    without = choose(tagged, 0.5, quotas=False, empty_share=1.0, rng=rng)
    assert without == list(range(40))  # no B at all
    chosen = choose(tagged, 0.5, quotas=True, empty_share=1.0, rng=rng)
    assert chosen == [*range(20, 40), *range(60, 80)]  # the surest half of each


def test_a_sentence_counts_by_its_least_sure_entity_with_quotas_too() -> None:
    tagged = [sentence(("A", 0.9), ("B", 0.1)), sentence(("A", 0.8)), sentence(("B", 0.2)), sentence(("A", 0.1))]
    assert choose(tagged, 0.5, True, 0.0, random.Random(3)) == [1, 2]


def test_sentences_without_entities_stay_in_proportion() -> None:
    tagged = [sentence(("A", i / 50)) if i % 5 == 0 else sentence() for i in range(50)]  # 10 and 40
    for keep, share, expected in ((1.0, 1.0, 40), (0.5, 1.0, 20), (0.5, 0.5, 10), (0.5, 0.0, 0), (1.0, 3.0, 40)):
        chosen = choose(tagged, keep, True, share, random.Random(4))
        assert sum(not tagged[i].spans for i in chosen) == expected
        assert sum(bool(tagged[i].spans) for i in chosen) == round(10 * keep)
    again = [choose(tagged, 0.5, True, 1.0, random.Random(5)) for _ in range(2)]
    assert again[0] == again[1]


def test_a_text_without_entities_is_kept_as_it_is() -> None:
    assert choose([sentence()] * 3, 0.5, True, 1.0, random.Random(6)) == [0, 1, 2]
