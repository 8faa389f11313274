"""The object users keep: text in, entities with offsets and confidences out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from nershift.arguments import as_path
from nershift.backend.device import find_device
from nershift.data.spans import Sentence, Span
from nershift.errors import CheckpointError
from nershift.evaluation.calibration import Calibration, Floats, fit_temperature, reliability, thresholds
from nershift.heads.base import with_scores
from nershift.manifest import manifested
from nershift.methods.adapter import Neighbour, SentenceAdapter, load_adapter
from nershift.model import Batch, TaggingModel
from nershift.model_store import load_model, save_model
from nershift.tagger.entities import Entity, ReadsTexts, as_texts, place_entities, split_texts
from nershift.tagger.long_sentences import Parts, tag_in_parts
from nershift.text.word_cache import CACHE_BYTES

TARGET = "target"
_CALIBRATED_ON = 500  # sentences that a temperature is fitted on: one number needs no more


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
        """Entity types that it predicts."""
        return self.model.head(self.key).predicted_types

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu", verify: bool = True) -> Tagger:
        """The tagger of a folder.

        Args:
            verify: compare the hashes of its files with the folder's manifest first.
        """
        where = find_device(device)
        folder = as_path(folder, "Tagger.load", "the folder of a finished run")
        model, meta = load_model(folder, verify)
        keys = [key for key, _ in model.named_heads()]
        if TARGET not in keys:
            raise CheckpointError(
                f"holds no target head (it has: {', '.join(keys) or 'none'})",
                place=str(folder),
                expected="the folder of a run that was trained for a target",
                fix=f"adapt it first: nershift adapt --from {folder} --target CORPUS --out DIR",
            )
        tagger = cls(model.to(where), meta, adapter=load_adapter(folder))
        tagger.folder = folder
        return tagger

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        revision: str | None = None,
        token: str | None = None,
        device: str = "cpu",
        verify: bool = True,
    ) -> Tagger:
        """:meth:`load` from a folder, or from a repository on the hub (its name, such as ``me/clinic-ner``)."""
        from nershift.tagger.hub import fetch

        return cls.load(fetch(name, revision, token), device, verify)

    def push_to_hub(self, repo_id: str, *, license: str, **options: Any) -> str:
        """Upload the tagger with a model card; see :func:`nershift.tagger.hub.push` for the options."""
        from nershift.tagger.hub import push

        return push(self, repo_id, license=license, **options)

    def save(self, folder: str | Path) -> None:
        folder = as_path(folder, "Tagger.save")
        with manifested(folder):
            if self.adapter is not None:
                self.adapter.save(folder)
            save_model(folder, self.model, self.meta)

    def tag_texts(self, texts: Sequence[str], adapt: bool = False) -> list[list[Entity]]:
        """Entities of each text; with ``adapt``, each sentence is tagged by weights of its own."""
        parts, owner = split_texts(texts)
        tagged = self.adapt_sentences(parts) if adapt else self.tag_sentences(parts)
        return place_entities(texts, tagged, owner)

    def tag_sentences(self, sentences: Sequence[Sentence], batch_size: int = 128) -> list[Sentence]:
        """The same sentences with predicted spans in place of whatever spans they had."""

        def tag(parts: Sequence[Sentence]) -> list[Sentence]:
            return self.model.predict_batches(parts, self._batches(parts, batch_size), confidence=True)

        return tag_in_parts(sentences, tag)

    def _batches(self, sentences: Sequence[Sentence], batch_size: int) -> Iterator[tuple[list[int], Batch]]:
        """Batches to tag; between them the cache of word forms is kept within its bounds."""
        for rows, batch in self.model.batches(self.key, sentences, batch_size):
            yield rows, batch
            self.model.encoder.forget_beyond(CACHE_BYTES)

    @torch.no_grad()
    def calibrate(self, sentences: Sequence[Sentence], batch_size: int = 128) -> Calibration | None:
        """Fit the temperature of the confidences to labelled sentences that were not trained on.

        It changes scores, never entities. The tagger keeps it, with thresholds for precisions, when it is saved.
        None if no entity is predicted in the sentences.
        """
        head = self.model.head(self.key)
        head.temperature = 1.0
        self.meta.pop("calibration", None)
        chosen = sentences[:: -(-len(sentences) // _CALIBRATED_ON) or 1]
        parts = list(self._encoded(chosen, batch_size))  # encoded once; each temperature only scores anew
        gold = [{(s.start, s.end, s.label) for s in sentence.spans} for sentence in chosen]
        predicted = [(i, s) for part in parts for i, row in zip(part.rows, part.spans, strict=True) for s in row]
        right = np.array([(s.start, s.end, s.label) in gold[i] for i, s in predicted], dtype=bool)
        if not len(right):
            return None

        def confidences_at(temperature: float) -> Floats:
            head.temperature = temperature
            rows = (row for part in parts for row in head.confidences(part.states, part.mask, part.spans))
            return np.array([c for row in rows for c in row], dtype=np.float64)

        before = confidences_at(1.0)
        best = round(fit_temperature(confidences_at, right), 4)
        after = confidences_at(best)  # leaves the head at the best temperature
        fitted = Calibration(best, reliability(before, right), reliability(after, right), thresholds(after, right))
        self.meta["calibration"] = {k: v for k, v in fitted.to_dict().items() if k in ("temperature", "thresholds")}
        return fitted

    @torch.no_grad()
    def predict_uncalibrated(
        self, sentences: Sequence[Sentence], batch_size: int = 128
    ) -> tuple[list[Sentence], list[Sentence]]:
        """:meth:`tag_sentences`, and the same entities with the scores they have without a temperature."""
        head = self.model.head(self.key)
        fitted = head.temperature
        whole = Parts(sentences)
        out = [[s.with_spans(()) for s in whole.sentences] for _ in range(2)]
        for part in self._encoded(whole.sentences, batch_size):
            for answers, temperature in zip(out, (fitted, 1.0), strict=True):
                head.temperature = temperature
                scored = with_scores(part.spans, head.confidences(part.states, part.mask, part.spans))
                for i, spans in zip(part.rows, scored, strict=True):
                    answers[i] = whole.sentences[i].with_spans(spans)
            head.temperature = fitted
        return whole.with_spans(out[0]), whole.with_spans(out[1])

    def _encoded(self, sentences: Sequence[Sentence], batch_size: int) -> Iterator[_Part]:
        head = self.model.eval().head(self.key)
        for rows, batch in self._batches(sentences, batch_size):
            states = self.model.states(batch)
            yield _Part(rows, states, batch.mask, head.predict(states, batch.mask))

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
        return self.tag_texts(as_texts(text), adapt=True)

    def adapt_sentences(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """:meth:`tag_sentences` with a step on each sentence's nearest labelled ones before it is tagged."""
        adapter = self._need_adapter()
        return tag_in_parts(sentences, lambda parts: adapter.predict(self.model, self.key, parts))

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


@dataclass(frozen=True)
class _Part:
    """A batch after the encoder: which sentences, their states ``[B, L, H]`` and the spans predicted in them."""

    rows: Sequence[int]
    states: Tensor
    mask: Tensor
    spans: list[list[Span]]
