"""Retrieval (eqs. 4-6): the labelled source sentences by their vectors, and a tagger's adaptation to what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nershift.config import build, to_dict
from nershift.data.spans import Sentence
from nershift.errors import CheckpointError
from nershift.methods.adapter import Neighbour, SentenceAdapter, register
from nershift.methods.metacross.adaptation import Adaptation
from nershift.methods.metacross.options import MetaCrossOptions
from nershift.methods.metacross.retrieval import distinct, top_k, unit
from nershift.methods.metacross.sentence_vectors import SentenceVectors
from nershift.model import TaggingModel
from nershift.storage import load_tensors, save_tensors

_TENSORS, _ENCODER = "support.safetensors", "support-encoder"


@register("metacross")
class SupportIndex(SentenceAdapter):
    """Distinct labelled sentences with their unit vectors.

    Args:
        vectors: computes the vectors of queries; None: the input embeddings of the tagger's own encoder do.
        index: unit vectors of the sentences, [n, H].
        centre: what was subtracted before their norms were made 1.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        options: MetaCrossOptions,
        vectors: SentenceVectors | None,
        index: Tensor,
        centre: Tensor | None = None,
    ) -> None:
        self.sentences, self.options, self.vectors = list(sentences), options, vectors
        self.index, self.centre = index, centre

    @classmethod
    def of(
        cls, sentences: Sequence[Sentence], options: MetaCrossOptions, vectors: SentenceVectors, own_table: bool
    ) -> SupportIndex:
        """Index sentences. With ``own_table``, ``vectors`` are the tagger's own embeddings: no need to save them."""
        labelled = [s for s in sentences if len(s)]
        labelled = [labelled[i] for i in distinct(s.tokens for s in labelled)[0]]
        raw = vectors([s.tokens for s in labelled])  # eq. 5
        centre = raw.mean(0) if options.centre else None
        return cls(labelled, options, None if own_table else vectors, unit(raw, centre), centre)

    def search(self, sentences: Sequence[Sentence], model: TaggingModel) -> tuple[Tensor, Tensor]:
        """Numbers and similarities of the K neighbours of each sentence, [n, K]."""
        vectors = (self.vectors or SentenceVectors.of_words(model)).to(model.device)
        queries = unit(vectors([s.tokens for s in sentences]), self.centre)
        return top_k(queries.to(model.device), self.index, self.options.neighbours)  # eq. 6

    def tasks(self, device: torch.device | str = "cpu") -> list[list[int]]:
        """The neighbours of each indexed sentence among the others (eq. 4), computed on ``device``."""
        vectors, own = self.index.to(device), torch.arange(len(self.sentences), device=device)
        return top_k(vectors, vectors, self.options.neighbours, own)[0].tolist()

    def predict(self, model: TaggingModel, key: str, sentences: Sequence[Sentence]) -> list[Sentence]:
        if not sentences:
            return []
        tasks = self.search(sentences, model)[0].tolist()
        return Adaptation(model, key, self.options).predict(sentences, self.sentences, tasks)

    def neighbours(self, model: TaggingModel, sentences: Sequence[Sentence]) -> list[list[Neighbour]]:
        if not sentences:
            return []
        rows, similarities = (x.tolist() for x in self.search(sentences, model))
        return [
            [Neighbour(self.sentences[i], similarity) for i, similarity in zip(*pair, strict=True)]
            for pair in zip(rows, similarities, strict=True)
        ]

    def measures(self) -> dict[str, Any]:
        return {"rate": self.options.adapt_lr}

    def describe(self) -> dict[str, Any]:
        return {
            "options": to_dict(self.options),
            "own_table": self.vectors is None,
            "sentences": [
                {"tokens": s.tokens, "spans": [(x.start, x.end, x.label) for x in s.spans]} for s in self.sentences
            ],
        }

    def save_files(self, folder: Path) -> None:
        if self.vectors is not None:
            self.vectors.save(folder / _ENCODER)
        tensors = {"index": self.index} | ({} if self.centre is None else {"centre": self.centre})
        save_tensors(folder / _TENSORS, tensors, {})

    @classmethod
    def rebuild(cls, description: Mapping[str, Any], folder: Path) -> SupportIndex:
        options = _options(description)
        sentences = [Sentence.of(row["tokens"], [tuple(x) for x in row["spans"]]) for row in description["sentences"]]
        tensors, _ = load_tensors(folder / _TENSORS)
        index = tensors["index"]
        if len(index) != len(sentences):
            raise CheckpointError(
                f"{len(index)} vectors for {len(sentences)} sentences",
                place=str(folder / _TENSORS),
                fix="restore all files of the folder",
            )
        if not all(torch.isfinite(tensor).all() for tensor in tensors.values()):
            raise CheckpointError(
                "has values that are no finite numbers",
                place=str(folder / _TENSORS),
                fix="restore all files of the folder",
            )
        own_table = description["own_table"]
        vectors = None if own_table else SentenceVectors.load(str(folder / _ENCODER), options.vectors)
        return cls(sentences, options, vectors, index, tensors.get("centre"))


def _options(description: Mapping[str, Any]) -> MetaCrossOptions:
    if "options" in description:
        return build(MetaCrossOptions, description["options"], "options")
    old = description["settings"]  # of folders written before the options were saved whole
    rule = old["rule"]
    return MetaCrossOptions(
        neighbours=old["neighbours"],
        vectors=old["pooling"],
        centre=old["centre"],
        rule=rule["kind"],
        adapt_lr=rule["rate"],
        clip=rule["clip"],
        weight_decay=rule["decay"],
        memory=old["memory"],
        adapt_precision=old["precision"],
    )
