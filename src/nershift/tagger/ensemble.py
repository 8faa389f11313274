"""Several taggers for the same types that vote on each entity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nershift.data.spans import Sentence
from nershift.errors import ConfigError
from nershift.evaluation.vote import vote
from nershift.tagger.entities import ReadsTexts
from nershift.tagger.tagger import Tagger


class Ensemble(ReadsTexts):
    """Taggers that vote: runs with other seeds, encoders or methods for one target.

    Example:
        >>> ensemble = Ensemble.load(["runs/news-1", "runs/news-2"])
        >>> [(e.text, e.label) for e in ensemble.predict("Nobody in Leeds spoke in 1998.")]
        [('Leeds', 'place')]
    """

    def __init__(self, taggers: Sequence[Tagger]) -> None:
        if not taggers:
            raise ConfigError("an ensemble without taggers", expected="one or more")
        self.taggers = list(taggers)
        for other in self.taggers[1:]:
            if set(other.types) != set(self.types):
                raise ConfigError(
                    "taggers that vote must have the same entity types",
                    place=f"{other.folder or 'a tagger'}: {', '.join(other.types)}",
                    expected=", ".join(self.types),
                )

    @property
    def types(self) -> tuple[str, ...]:
        return self.taggers[0].types

    @classmethod
    def load(cls, folders: Sequence[str | Path], device: str = "cpu") -> Ensemble:
        return cls([Tagger.load(folder, device) for folder in folders])

    def tag_sentences(self, sentences: Sequence[Sentence], batch_size: int = 128) -> list[Sentence]:
        """The same sentences with the spans that were voted for."""
        return vote([tagger.tag_sentences(sentences, batch_size) for tagger in self.taggers])
