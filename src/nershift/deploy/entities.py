"""From texts to sentences for a tagger, and from its token spans back to entities with character offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nershift.data.spans import Sentence
from nershift.data.tokenizer import sentences as split_sentences
from nershift.data.tokenizer import tokenize


@dataclass(frozen=True)
class Entity:
    """Characters ``start:end`` of the text are an entity of type ``label``; ``score`` is its probability."""

    start: int
    end: int
    label: str
    text: str
    score: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "start": self.start,
            "end": self.end,
            "label": self.label,
            "text": self.text,
            "score": self.score,
        }


def split_texts(texts: Sequence[str]) -> tuple[list[Sentence], list[tuple[int, int]]]:
    """The sentences of all texts, and for each its text's number and the character at which it starts."""
    parts: list[Sentence] = []
    owner: list[tuple[int, int]] = []
    for number, text in enumerate(texts):
        for start, end in split_sentences(text):
            piece = text[start:end]
            offsets = tokenize(piece)
            if offsets:
                parts.append(Sentence.of((piece[a:b] for a, b in offsets), (), piece, offsets))
                owner.append((number, start))
    return parts, owner


def place_entities(
    texts: Sequence[str], tagged: Sequence[Sentence], owner: Sequence[tuple[int, int]]
) -> list[list[Entity]]:
    """The entities of each text, from the tagged sentences that :func:`split_texts` gave."""
    out: list[list[Entity]] = [[] for _ in texts]
    for sentence, (number, start) in zip(tagged, owner, strict=True):
        assert sentence.offsets is not None
        for span in sentence.spans:
            a, b = start + sentence.offsets[span.start][0], start + sentence.offsets[span.end - 1][1]
            out[number].append(Entity(a, b, span.label, texts[number][a:b], span.score or 0.0))
    return out
