"""The object users keep: text in, entities with offsets and confidences out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, overload

from nershift.backend.device import find_device
from nershift.data.spans import Sentence
from nershift.errors import CheckpointError
from nershift.methods.adapter import Neighbour, SentenceAdapter, load_adapter
from nershift.model import TaggingModel
from nershift.model_store import load_model, save_model
from nershift.tagger.calibration import Calibration, calibrate, tag_twice
from nershift.tagger.entities import Entity, ReadsTexts, place_entities, split_texts

TARGET = "target"
_CACHE_LIMIT = 200_000  # distinct word forms kept between calls


class Tagger(ReadsTexts):
    """A trained recogniser, whole in one folder.

    Example:
        >>> tagger = Tagger.load("runs/news-1")
        >>> [(e.start, e.end, e.label, e.text) for e in tagger.predict("Nobody in Leeds spoke in 1998.")]
        [(10, 15, 'place', 'Leeds')]
        >>> len(tagger.predict(["one text", "another"]))  # a list of entities for each
        2
        >>> tagger.tag_tokens(["Nobody in Leeds spoke .".split()])[0].spans[0].label  # text that is already split
        'place'
    """

    def __init__(
        self,
        model: TaggingModel,
        meta: dict[str, Any] | None = None,
        key: str = TARGET,
        adapter: SentenceAdapter | None = None,
    ) -> None:
        self.model, self.meta, self.key = model.eval(), dict(meta or {}), key
        self.adapter = adapter  # for :meth:`adaptive`, if the method has one
        self.folder: Path | None = None  # where it was loaded from

    @property
    def types(self) -> tuple[str, ...]:
        return self.model.head(self.key).types

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> Tagger:
        where = find_device(device)
        model, meta = load_model(Path(folder))
        keys = [key for key, _ in model.named_heads()]
        if TARGET not in keys:
            raise CheckpointError(
                f"holds no target head (it has: {', '.join(keys) or 'none'})",
                place=str(folder),
                expected="the folder of a run that was trained for a target",
                fix=f"adapt it first: nershift adapt --from {folder} --target CORPUS --out DIR",
            )
        tagger = cls(model.to(where), meta, adapter=load_adapter(Path(folder)))
        tagger.folder = Path(folder)
        return tagger

    @classmethod
    def from_pretrained(
        cls, name: str | Path, revision: str | None = None, token: str | None = None, device: str = "cpu"
    ) -> Tagger:
        """:meth:`load` from a folder, or from a repository on the hub (its name, such as ``me/clinic-ner``)."""
        from nershift.tagger.hub import fetch

        return cls.load(fetch(name, revision, token), device)

    def push_to_hub(self, repo_id: str, *, license: str, **options: Any) -> str:
        """Upload the tagger with a model card; see :func:`nershift.tagger.hub.push` for the options."""
        from nershift.tagger.hub import push

        return push(self, repo_id, license=license, **options)

    def save(self, folder: str | Path) -> None:
        if self.adapter is not None:
            self.adapter.save(Path(folder))
        save_model(Path(folder), self.model, self.meta)

    def tag_texts(self, texts: Sequence[str], adapt: bool = False) -> list[list[Entity]]:
        """Entities of each text; with ``adapt``, each sentence is tagged by weights of its own."""
        parts, owner = split_texts(texts)
        tagged = self.adapt_sentences(parts) if adapt else self.tag_sentences(parts)
        return place_entities(texts, tagged, owner)

    def tag_tokens(self, rows: Iterable[Sequence[str]]) -> list[Sentence]:
        return self.tag_sentences([Sentence.of(tokens) for tokens in rows])

    def tag_sentences(self, sentences: Sequence[Sentence], batch_size: int = 128) -> list[Sentence]:
        """The same sentences with predicted spans in place of whatever spans they had."""
        tagged = self.model.predict(self.key, sentences, batch_size, confidence=True)
        self.model.encoder.forget_beyond(_CACHE_LIMIT)
        return tagged

    def calibrate(self, sentences: Sequence[Sentence], batch_size: int = 128) -> Calibration | None:
        """Fit the temperature of the confidences to labelled sentences that were not trained on.

        It changes scores, never entities. The tagger keeps it, with thresholds for precisions, when it is saved.
        """
        found = calibrate(self.model, self.key, sentences, batch_size)
        self.meta.pop("calibration", None)
        if found is not None:
            told = found.to_dict()
            self.meta["calibration"] = {k: told[k] for k in ("temperature", "thresholds")}
        return found

    def tag_twice(self, sentences: Sequence[Sentence], batch_size: int = 128) -> tuple[list[Sentence], list[Sentence]]:
        """:meth:`tag_sentences`, and the same entities with the scores they had without a temperature."""
        tagged = tag_twice(self.model, self.key, sentences, batch_size)
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
        return self._need_adapter().predict(self.model, self.key, sentences)

    def neighbours(self, text: str | Sentence) -> list[list[Neighbour]]:
        """What :meth:`adaptive` learns from before it reads each sentence of the text, nearest first."""
        sentences = split_texts([text])[0] if isinstance(text, str) else [text]
        return self._need_adapter().neighbours(self.model, sentences)

    def _need_adapter(self) -> SentenceAdapter:
        if self.adapter is None:
            raise CheckpointError(
                "this tagger keeps no labelled sentences to adapt to",
                place=f"method '{self.meta.get('method', 'unknown')}'",
                expected="a tagger of method metacross",
                fix="tag without adaptation, or train one: nershift transfer --method metacross …",
            )
        return self.adapter
