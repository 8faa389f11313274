"""Several taggers for the same types that vote on each entity."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from nershift.arguments import found
from nershift.data.spans import Sentence
from nershift.errors import CheckpointError, ConfigError
from nershift.evaluation.vote import vote
from nershift.tagger.entities import ReadsTexts
from nershift.tagger.tagger import Tagger

VOTERS_FILE = "voters.json"  # in the folder of a run that votes with others


def voters_of(folder: Path) -> list[Path]:
    """The folders of the taggers that a folder stands for: itself, and those below it that vote with it."""
    path = folder / VOTERS_FILE
    if not path.exists():
        return [folder]
    try:
        names = json.loads(path.read_text(encoding="utf-8"))["voters"]
        return [folder / str(name) for name in names]
    except (OSError, ValueError, KeyError, TypeError):
        raise CheckpointError(
            "does not say which taggers vote", place=str(path), expected='{"voters": [".", "voters/2"]}'
        ) from None


class Ensemble(ReadsTexts):
    """Taggers that vote: runs with other seeds, encoders or methods for one target.

    Example:
        >>> ensemble = Ensemble.load(["runs/news-1", "runs/news-2"])
        >>> [(e.text, e.label) for e in ensemble.predict("Nobody in Leeds spoke in 1998.")]
        [('Leeds', 'place')]
    """

    def __init__(self, taggers: Sequence[Tagger]) -> None:
        if isinstance(taggers, Sequence) and (odd := [t for t in taggers if not isinstance(t, ReadsTexts)]):
            raise ConfigError(found(odd[0]), place="Ensemble", expected="a list of taggers", fix="Tagger.load(folder)")
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
    def load(cls, folders: Sequence[str | Path], device: str = "cpu", verify: bool = True) -> Ensemble:
        """Load the taggers of these folders; a folder that names further voters stands for all of them."""
        if isinstance(folders, (str, Path)):
            raise ConfigError(found(folders), place="Ensemble.load", expected="a list of folders")
        return cls([Tagger.load(folder, device, verify) for given in folders for folder in voters_of(Path(given))])

    def tag_sentences(self, sentences: Sequence[Sentence], batch_size: int = 128) -> list[Sentence]:
        """The same sentences with the spans that were voted for."""
        return vote([tagger.tag_sentences(sentences, batch_size) for tagger in self.taggers])
