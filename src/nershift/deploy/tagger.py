"""The object users keep: text in, entities with offsets and confidences out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from nershift.data.spans import Sentence
from nershift.data.tokenizer import sentences as split_sentences
from nershift.data.tokenizer import tokenize
from nershift.errors import CheckpointError
from nershift.nn.model import TaggingModel
from nershift.nn.store import load_model, save_model

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

    def __init__(self, model: TaggingModel, meta: dict[str, Any] | None = None, key: str = TARGET) -> None:
        self.model, self.meta, self.key = model.eval(), dict(meta or {}), key

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
        return cls(model.to(device), meta)

    def save(self, folder: str | Path) -> None:
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

    def tag_texts(self, texts: Sequence[str]) -> list[list[Entity]]:
        parts: list[Sentence] = []
        owner: list[tuple[int, int]] = []  # (text, character at which the sentence starts)
        for number, text in enumerate(texts):
            for start, end in split_sentences(text):
                piece = text[start:end]
                offsets = tokenize(piece)
                if offsets:
                    parts.append(Sentence.of((piece[a:b] for a, b in offsets), (), piece, offsets))
                    owner.append((number, start))
        out: list[list[Entity]] = [[] for _ in texts]
        for sentence, (number, start) in zip(self.tag_sentences(parts), owner, strict=True):
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
