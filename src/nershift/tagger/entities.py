"""From texts to sentences for a tagger, and from its token spans back to entities with character offsets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, overload

from nershift.arguments import found
from nershift.data.spans import Sentence, Span
from nershift.data.tokenizer import sentences as split_sentences
from nershift.data.tokenizer import tokenize
from nershift.errors import DataError

SCHEMA = Path(__file__).with_name("entities.schema.json")  # of an entity in every answer


@dataclass(frozen=True)
class Entity:
    """Characters ``start:end`` of the text are an entity of type ``label``; ``score`` is its probability.

    ``token_start:token_end`` are tokens of the same text, where it has been split into tokens. Tokens without a text
    are joined by single spaces. :data:`SCHEMA` is the JSON Schema of :meth:`to_dict`.

    Example:
        >>> text = "Ada left London."
        >>> Entity(9, 15, "place", text[9:15], score=0.98, token_start=2, token_end=3).to_dict()
        {'start': 9, 'end': 15, 'label': 'place', 'text': 'London', 'score': 0.98, 'token_start': 2, 'token_end': 3}
    """

    start: int
    end: int
    label: str
    text: str
    score: float
    token_start: int | None = None
    token_end: int | None = None

    @classmethod
    def of(cls, span: Span, text: str, offsets: Sequence[tuple[int, int]], at: int = 0) -> Entity:
        """The entity of a span that counts tokens from the one at ``at``; ``offsets`` are of all tokens of the text."""
        first, end = at + span.start, at + span.end
        a, b = offsets[first][0], offsets[end - 1][1]
        return cls(a, b, span.label, text[a:b], span.score or 0.0, first, end)

    def to_dict(self) -> dict[str, Any]:
        """JSON values, without what is not known."""
        values = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {name: value for name, value in values if value is not None}


class ReadsTexts(ABC):
    """A tagger of sentences whose :meth:`predict` takes a text or a list of them."""

    @property
    @abstractmethod
    def types(self) -> tuple[str, ...]:
        """Entity types."""

    @abstractmethod
    def tag_sentences(self, sentences: Sequence[Sentence], batch_size: int = 128) -> list[Sentence]:
        """The same sentences with predicted spans in place of whatever spans they had."""

    def tag_texts(self, texts: Sequence[str]) -> list[list[Entity]]:
        """Entities of each text."""
        parts, owner = split_texts(texts)
        return place_entities(texts, self.tag_sentences(parts), owner)

    def tag_tokens(self, rows: Iterable[Sequence[str]]) -> list[Sentence]:
        if isinstance(rows, str) or not isinstance(rows, Iterable):
            raise DataError(found(rows), place="tokens", expected="a list of tokens for each sentence")
        sentences = [Sentence.of(tokens) for tokens in rows]
        odd = [(i, t) for i, s in enumerate(sentences, 1) for t in s.tokens if not isinstance(t, str)]
        if odd:
            number, token = odd[0]
            raise DataError(found(token), place=f"tokens of sentence {number}", expected="each token as text (str)")
        return self.tag_sentences(sentences)

    @overload
    def predict(self, text: str) -> list[Entity]: ...
    @overload
    def predict(self, text: list[str] | tuple[str, ...]) -> list[list[Entity]]: ...
    def predict(self, text: str | list[str] | tuple[str, ...]) -> list[Entity] | list[list[Entity]]:
        """Entities of a text, or of each text of a list. Text of any length is read whole."""
        if isinstance(text, str):
            return self.tag_texts([text])[0]
        return self.tag_texts(as_texts(text))

    __call__ = predict


def as_texts(given: object) -> list[str]:
    """A list of texts, whatever holds them."""
    expected = "a text (str), or a list of texts"
    if isinstance(given, (bytes, Mapping)) or not isinstance(given, Iterable):
        raise DataError(found(given), place="tagger", expected=expected)
    texts = list(given)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(found(text), place=f"text {number + 1}", expected=expected)
    return texts


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
    offsets: list[list[tuple[int, int]]] = [[] for _ in texts]
    for sentence, (number, start) in zip(tagged, owner, strict=True):
        mine, at = offsets[number], len(offsets[number])
        mine += [(start + a, start + b) for a, b in sentence.offsets or ()]
        out[number] += [Entity.of(span, texts[number], mine, at) for span in sentence.spans]
    return out
