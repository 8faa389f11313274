"""The labelled sentences a tagger can look up: an index by sentence vector, and how to adapt to what it finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nershift.data.spans import Sentence
from nershift.encoders.transformer import TransformerEncoder
from nershift.errors import CheckpointError
from nershift.methods.metacross.batched_adaptation.adapter import Precision
from nershift.methods.metacross.batched_adaptation.step_rule import StepRule
from nershift.methods.metacross.sentence_vectors import Pooling, SentenceVectors
from nershift.model import TaggingModel
from nershift.sampling.retrieval import distinct, top_k, unit
from nershift.storage import load_tensors, save_tensors, write_text

_FILE, _ENCODER = "support.json", "support-encoder"


@dataclass(frozen=True)
class SupportSettings:
    """How many neighbours, by which vectors, and the step taken on them."""

    neighbours: int = 2  # K
    pooling: Pooling = "cls"
    centre: bool = False  # take the mean vector away before comparing
    rule: StepRule = field(default_factory=StepRule)
    memory: float = 2.0  # GiB for adapting many sentences at once
    precision: Precision = "fp32"  # of the step and of tagging after it


@dataclass(frozen=True)
class Neighbour:
    """A labelled sentence and its cosine with the one it was retrieved for."""

    sentence: Sentence
    similarity: float

    def to_dict(self) -> dict[str, Any]:
        entities = [{"text": self.sentence.mention(s), "label": s.label} for s in self.sentence.spans]
        return {"text": " ".join(self.sentence.tokens), "entities": entities, "similarity": self.similarity}


class Support:
    """Distinct sentences with their unit vectors.

    Args:
        vectors: what makes the vectors; None: the input embeddings of the tagger's own encoder.
        index: unit vectors, [n, H]; made here if not given.
        own_table: ``vectors`` are those of the tagger's own encoder, so that they need not be saved.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        settings: SupportSettings,
        vectors: SentenceVectors | None,
        index: Tensor | None = None,
        centre: Tensor | None = None,
        own_table: bool = False,
    ) -> None:
        self.settings, self.centre = settings, centre
        self.vectors = None if own_table else vectors
        self.sentences = list(sentences)
        if index is None:
            kept = [s for s in sentences if len(s)]
            self.sentences = [kept[i] for i in distinct(s.tokens for s in kept)[0]]
            assert vectors is not None
            raw = vectors([s.tokens for s in self.sentences])
            self.centre = raw.mean(0) if settings.centre else None
            index = unit(raw, self.centre)
        self.index = index

    def search(self, sentences: Sequence[Sentence], model: TaggingModel) -> tuple[Tensor, Tensor]:
        """Numbers and similarities of the neighbours of each sentence, [n, K]."""
        maker = self.vectors or own_vectors(model)
        vectors = unit(maker.to(model.device)([s.tokens for s in sentences]), self.centre)
        return top_k(vectors.to(model.device), self.index, self.settings.neighbours)

    def tasks(self, device: torch.device | str = "cpu") -> list[list[int]]:
        """The neighbours of each indexed sentence among the others (eq. 4), computed on ``device``."""
        vectors, own = self.index.to(device), torch.arange(len(self.sentences), device=device)
        return top_k(vectors, vectors, self.settings.neighbours, own)[0].tolist()

    def save(self, folder: Path) -> None:
        rows = [{"tokens": s.tokens, "spans": [(x.start, x.end, x.label) for x in s.spans]} for s in self.sentences]
        if self.vectors is not None:
            self.vectors.save(folder / _ENCODER)
        tensors = {"index": self.index} | ({} if self.centre is None else {"centre": self.centre})
        save_tensors(folder / "support.safetensors", tensors, {})
        body: dict[str, Any] = {
            "settings": asdict(self.settings),
            "own_table": self.vectors is None,
            "sentences": rows,
        }
        write_text(folder / _FILE, json.dumps(body, ensure_ascii=False))

    @classmethod
    def load(cls, folder: Path) -> Support | None:
        """The support of a saved tagger, or None if it has none."""
        path = folder / _FILE
        if not path.exists():
            return None
        tensors, _ = load_tensors(folder / "support.safetensors")
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            given = dict(body["settings"])
            settings = SupportSettings(**{**given, "rule": StepRule(**given["rule"])})
            sentences = [Sentence.of(r["tokens"], [tuple(x) for x in r["spans"]]) for r in body["sentences"]]
            index, own = tensors["index"], body["own_table"]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"something is missing or wrong ({type(error).__name__}: {error})",
                place=str(path),
                expected="what nershift wrote there",
                fix="restore it, or train again",
            ) from None
        if len(index) != len(sentences):
            raise CheckpointError(
                f"{len(index)} vectors for {len(sentences)} sentences",
                place=str(path),
                fix="restore both files",
            )
        vectors = None if own else SentenceVectors.load(str(folder / _ENCODER), settings.pooling)
        return cls(sentences, settings, vectors, index, tensors.get("centre"))


def own_vectors(model: TaggingModel) -> SentenceVectors:
    """The mean input embedding of the tagger's own encoder."""
    assert isinstance(model.encoder, TransformerEncoder)
    return SentenceVectors(model.encoder.model, model.encoder.tokenizer, "words")
