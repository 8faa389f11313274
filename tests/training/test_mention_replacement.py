from __future__ import annotations

from random import Random

from nershift.data.spans import Sentence
from nershift.training.mention_replacement import mentions_by_type, replace_mentions

SENTENCE = Sentence.of(
    ["Ada", "Lovelace", "met", "Ted", "in", "New", "York", "."], [(0, 2, "PER"), (3, 4, "PER"), (5, 7, "LOC")]
)
ENTITIES = {"PER": [("Grace", "Murray", "Hopper")], "LOC": [("Oslo",)]}


def test_entities_are_collected_by_type_as_often_as_they_occur() -> None:
    found = mentions_by_type([SENTENCE, SENTENCE.with_spans(SENTENCE.spans[:1])])
    assert found == {"PER": [("Ada", "Lovelace"), ("Ted",), ("Ada", "Lovelace")], "LOC": [("New", "York")]}


def test_all_entities_give_way_and_labels_move_with_them() -> None:
    made = replace_mentions(SENTENCE, ENTITIES, 1.0, Random(0))
    assert " ".join(made.tokens) == "Grace Murray Hopper met Grace Murray Hopper in Oslo ."
    assert [(made.mention(s), s.label) for s in made.spans] == [
        ("Grace Murray Hopper", "PER"),
        ("Grace Murray Hopper", "PER"),
        ("Oslo", "LOC"),
    ]


def test_a_share_of_them_gives_way() -> None:
    rng = Random(1)
    changed = sum(
        made.mention(new) != SENTENCE.mention(old)
        for made in (replace_mentions(SENTENCE, ENTITIES, 0.3, rng) for _ in range(1000))
        for new, old in zip(made.spans, SENTENCE.spans, strict=True)
    )
    assert 0.26 < changed / 3000 < 0.34


def test_no_share_and_unknown_types_change_nothing() -> None:
    assert replace_mentions(SENTENCE, ENTITIES, 0.0, Random(0)) == SENTENCE
    assert replace_mentions(SENTENCE, {}, 1.0, Random(0)) == SENTENCE
