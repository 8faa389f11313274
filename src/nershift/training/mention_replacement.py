"""Mention replacement: entities are replaced by others of their type, as data augmentation (Dai and Adel 2020)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from random import Random

from nershift.data.spans import Sentence, Span

Words = tuple[str, ...]


def mentions_by_type(sentences: Iterable[Sentence]) -> dict[str, list[Words]]:
    """The words of all entities, repeated as often as they occur."""
    entities = defaultdict[str, list[Words]](list)
    for sentence in sentences:
        for span in sentence.spans:
            entities[span.label].append(sentence.tokens[span.start : span.end])
    return dict(entities)


def replace_mentions(
    sentence: Sentence, mentions: Mapping[str, Sequence[Words]], share: float, rng: Random
) -> Sentence:
    """The sentence with about ``share`` of its entities replaced by random ``mentions`` of their type.

    Example:
        >>> s = Sentence.of("Ada left London".split(), [(0, 1, "PER"), (2, 3, "LOC")])
        >>> replace_mentions(s, {"LOC": [("New", "York")]}, 1.0, Random(0)).tokens
        ('Ada', 'left', 'New', 'York')
    """

    def words(span: Span) -> Words:
        if rng.random() < share and span.label in mentions:
            return rng.choice(mentions[span.label])
        return sentence.tokens[span.start : span.end]

    return sentence.with_entities(words)
