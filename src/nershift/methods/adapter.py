"""The contract of a tagger that adapts to each sentence before it tags it, and how one is saved and found again."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from nershift.data.spans import Sentence
from nershift.model import TaggingModel
from nershift.registry import Registry
from nershift.storage import rebuilding, write_text

ADAPTERS = Registry["type[SentenceAdapter]"](
    "sentence adapter", "nershift.adapters", "nershift.methods", attribute="kind"
)
register = ADAPTERS.register
_FILE = "support.json"
_FIRST_KIND = "metacross"  # the only kind there was when files did not name theirs


@dataclass(frozen=True)
class Neighbour:
    """A labelled sentence and its cosine similarity to the sentence it was retrieved for."""

    sentence: Sentence
    similarity: float

    def to_dict(self) -> dict[str, Any]:
        """JSON values; entities have the names of a tagger's answers, without a score since people labelled them."""
        text, offsets = self.sentence.to_text()
        entities = []
        for span in self.sentence.spans:
            a, b = offsets[span.start][0], offsets[span.end - 1][1]
            tokens = {"token_start": span.start, "token_end": span.end}
            entities.append({"start": a, "end": b, "label": span.label, "text": text[a:b], **tokens})
        return {"text": text, "entities": entities, "similarity": self.similarity}


class SentenceAdapter(ABC):
    """Gives every sentence weights of its own, by learning from labelled sentences like it.

    The model is an argument of each call: the adapter is saved beside it, not with it.
    """

    kind: ClassVar[str]

    @abstractmethod
    def predict(self, model: TaggingModel, key: str, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with the spans that ``model``, adapted to each, predicts with its head ``key``."""

    @abstractmethod
    def neighbours(self, model: TaggingModel, sentences: Sequence[Sentence]) -> list[list[Neighbour]]:
        """The labelled sentences that each sentence is adapted to, nearest first."""

    @abstractmethod
    def measures(self) -> dict[str, Any]:
        """What ``metrics.json`` says about the adaptation beside its effect."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """JSON values from which :meth:`rebuild` makes the adapter again."""

    @abstractmethod
    def save_files(self, folder: Path) -> None:
        """Write what does not fit JSON."""

    @classmethod
    @abstractmethod
    def rebuild(cls, description: Mapping[str, Any], folder: Path) -> SentenceAdapter:
        """The inverse of :meth:`describe` and :meth:`save_files`."""

    def save(self, folder: Path) -> None:
        self.save_files(folder)
        write_text(folder / _FILE, json.dumps({"kind": self.kind, **self.describe()}, ensure_ascii=False))


def load_adapter(folder: Path) -> SentenceAdapter | None:
    """The adapter saved in a folder, or None if there is none; only its own method is imported."""
    path = folder / _FILE
    if not path.exists():
        return None
    with rebuilding(path):
        description = json.loads(path.read_text(encoding="utf-8"))
        return ADAPTERS[description.get("kind", _FIRST_KIND)].rebuild(description, folder)
