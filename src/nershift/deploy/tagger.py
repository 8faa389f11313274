"""The object users keep: text in, entities with offsets and confidences out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from nershift.data.spans import Sentence
from nershift.data.tokenizer import sentences as split_sentences
from nershift.data.tokenizer import tokenize
from nershift.deploy.adaptive import adapt_sentences, neighbours
from nershift.errors import CheckpointError
from nershift.nn.model import TaggingModel
from nershift.nn.store import load_model, save_model
from nershift.nn.support import Neighbour, Support

TARGET = "target"
_CACHE_LIMIT = 200_000  # distinct word forms kept between calls


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


class Tagger:
    """A trained recogniser, whole in one folder.

    Example::

        tagger = Tagger.load("runs/clinic")
        tagger("Dr. Okafor saw her in Leeds.")     # [Entity(start=4, end=10, label='person', …), …]
        tagger(["one text", "another"])            # a list of such lists
        tagger.tag_tokens([["Already", "split"]])  # sentences with token spans
    """

    def __init__(
        self,
        model: TaggingModel,
        meta: dict[str, Any] | None = None,
        key: str = TARGET,
        support: Support | None = None,
    ) -> None:
        self.model, self.meta, self.key = model.eval(), dict(meta or {}), key
        self.support = support  # labelled sentences to adapt to, where the method keeps some

    @property
    def types(self) -> tuple[str, ...]:
        return self.model.decoder(self.key).space.types

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> Tagger:
        model, meta = load_model(Path(folder))
        keys = [key for key, _ in model.named_decoders()]
        if TARGET not in keys:
            raise CheckpointError(
                f"holds no target decoder (it has: {', '.join(keys) or 'none'})",
                place=str(folder),
                expected="the folder of a run that was trained for a target",
                fix=f"adapt it first: nershift adapt --from {folder} --target CORPUS --out DIR",
            )
        return cls(model.to(device), meta, support=Support.load(Path(folder)))

    def save(self, folder: str | Path) -> None:
        if self.support is not None:
            self.support.save(Path(folder))
        save_model(Path(folder), self.model, self.meta)

    @overload
    def __call__(self, text: str) -> list[Entity]: ...
    @overload
    def __call__(self, text: list[str] | tuple[str, ...]) -> list[list[Entity]]: ...
    def __call__(self, text: str | list[str] | tuple[str, ...]) -> list[Entity] | list[list[Entity]]:
        """Entities of a text, or of each text of a list. Text of any length is read whole."""
        if isinstance(text, str):
            return self.tag_texts([text])[0]
        return self.tag_texts(text)

    def tag_texts(self, texts: Sequence[str], adapt: bool = False) -> list[list[Entity]]:
        """Entities of each text; with ``adapt``, each sentence is tagged by weights of its own."""
        parts, owner = _split(texts)
        out: list[list[Entity]] = [[] for _ in texts]
        tagged = self.adapt_sentences(parts) if adapt else self.tag_sentences(parts)
        for sentence, (number, start) in zip(tagged, owner, strict=True):
            assert sentence.offsets is not None
            for span in sentence.spans:
                a, b = start + sentence.offsets[span.start][0], start + sentence.offsets[span.end - 1][1]
                out[number].append(Entity(a, b, span.label, texts[number][a:b], span.score or 0.0))
        return out

    def tag_tokens(self, rows: Iterable[Sequence[str]]) -> list[Sentence]:
        return self.tag_sentences([Sentence.of(tokens) for tokens in rows])

    def tag_sentences(self, sentences: Sequence[Sentence], batch_size: int = 128) -> list[Sentence]:
        """The same sentences with predicted spans in place of whatever spans they had."""
        tagged = self.model.predict(self.key, sentences, batch_size, confidence=True)
        self.model.encoder.forget_beyond(_CACHE_LIMIT)
        return tagged

    @overload
    def adaptive(self, text: str) -> list[Entity]: ...
    @overload
    def adaptive(self, text: list[str] | tuple[str, ...]) -> list[list[Entity]]: ...
    def adaptive(self, text: str | list[str] | tuple[str, ...]) -> list[Entity] | list[list[Entity]]:
        """Like calling the tagger, but each sentence is read by weights adapted to its nearest labelled ones.

        Raises:
            CheckpointError: for a tagger that keeps no labelled sentences.
        """
        if isinstance(text, str):
            return self.tag_texts([text], adapt=True)[0]
        return self.tag_texts(text, adapt=True)

    def adapt_sentences(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """:meth:`tag_sentences` with a step on each sentence's nearest labelled ones before it is tagged."""
        return adapt_sentences(self.model, self.key, self._need_support(), sentences)

    def neighbours(self, text: str | Sentence) -> list[list[Neighbour]]:
        """What :meth:`adaptive` learns from before it reads each sentence of the text, nearest first."""
        sentences = _split([text])[0] if isinstance(text, str) else [text]
        return neighbours(self.model, self._need_support(), sentences)

    def _need_support(self) -> Support:
        if self.support is None:
            raise CheckpointError(
                "this tagger keeps no labelled sentences to adapt to",
                place=f"method '{self.meta.get('method', 'unknown')}'",
                expected="a tagger of method metacross",
                fix="tag without adaptation, or train one: nershift transfer --method metacross …",
            )
        return self.support


def _split(texts: Sequence[str]) -> tuple[list[Sentence], list[tuple[int, int]]]:
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
