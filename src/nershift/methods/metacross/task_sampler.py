"""Batches of pseudo tasks: each sentence as a query, its nearest others as supports, entities hidden at random."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from nershift.data.spans import Sentence
from nershift.encoders.transformer import Pieces, TransformerEncoder
from nershift.methods.metacross.batched_adaptation.adapter import windows
from nershift.methods.metacross.support import Support
from nershift.model import Batch
from nershift.sampling.retrieval import distinct
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import generator

Mask = Literal["word", "first"]
Kind = Literal["query", "support"]


@dataclass(frozen=True)
class Masking:
    """``rate`` of the tokens of entities are hidden, anew each epoch."""

    rate: float
    mask: Mask = "word"  # hide all sub-words of a word, or its first
    support: bool = True  # mask supports as well as queries


@dataclass
class TaskBatch(Batch):
    """Queries of some tasks, or their supports, task after task."""

    windows: Sequence[int] = ()
    number: int = 0  # of the batch
    tasks: Sequence[int] = ()  # which sentences are the queries
    whole: int = 0  # tasks of the whole batch, other groups and processes included


class TaskSampler(BatchSampler):
    """Batches of tasks.

    Args:
        support: makes the index, when the model is where it computes.
    """

    def __init__(self, *args: Any, support: Callable[[], Support], masking: Masking) -> None:
        super().__init__(*args)
        self._make, self.masking = support, masking
        # The index holds the first sentence with each text, in this order.
        self._first, self._of_text = distinct(s.tokens for s in self.sentences)

    @cached_property
    def support(self) -> Support:
        return self._make()

    @cached_property
    def _neighbours(self) -> list[list[int]]:
        return self.support.tasks(self.model.device)

    def neighbours(self, i: int) -> list[int]:
        """Numbers, in the support, of the sentences that serve sentence ``i``."""
        return self._neighbours[self._of_text[i]]

    def positions(self, i: int) -> int:
        """Sub-words of the supports of sentence ``i``."""
        return sum(len(w) for j in self.neighbours(i) for w in self._prepared[self._first[j]].ids)

    def part(self, number: int, tasks: Sequence[int], whole: int) -> tuple[TaskBatch, TaskBatch]:
        """Queries and supports of some tasks of batch ``number``, which has ``whole`` of them."""
        rows = [j for i in tasks for j in self.neighbours(i)]
        more = (number, tasks, whole)
        return self._batch("query", tasks, *more), self._batch("support", rows, *more)

    def _batch(self, kind: Kind, rows: Sequence[int], number: int, tasks: Sequence[int], whole: int) -> TaskBatch:
        epoch = number // self.per_epoch
        ready = [self.masked(epoch, kind, i) for i in rows]
        at = [self._at(kind, i) for i in rows]
        assert self._tags is not None
        tags: list[np.ndarray] = [self._tags[i] for i in at]
        made = self.model.batch(self.key, [self.sentences[i] for i in at], ready, tags)
        return TaskBatch(**vars(made), windows=windows(ready), number=number, tasks=tasks, whole=whole)

    def _at(self, kind: Kind, i: int) -> int:
        return i if kind == "query" else self._first[i]

    def sentence(self, kind: Kind, i: int) -> Sentence:
        return self.sentences[self._at(kind, i)]

    def masked(self, epoch: int, kind: Kind, i: int) -> Pieces:
        """Features of a sentence in which tokens of entities are hidden at random."""
        sentence, plain = self.sentence(kind, i), self._prepared[self._at(kind, i)]
        inside = [at for span in sentence.spans for at in range(span.start, span.end)]
        if not inside or not self.masking.rate or (kind == "support" and not self.masking.support):
            return plain
        rng = generator(self.seed, "mask", epoch, kind, i)
        hidden = {at for at in inside if rng.random() < self.masking.rate}
        return hide(self.model.encoder, sentence.tokens, plain, hidden, self.masking.mask == "word")


def hide(encoder: Any, tokens: Sequence[str], plain: Pieces, hidden: Collection[int], whole: bool = True) -> Pieces:
    """What ``encoder.prepare(tokens, hidden, whole)`` gives, from the sentence's own features."""
    assert isinstance(encoder, TransformerEncoder)
    if not hidden:
        return plain
    if len(plain.ids) > 1:  # windows show a token twice
        return encoder.prepare(tokens, hidden, whole)
    ids = list(plain.ids[0])
    starts = [at for _, at in plain.at]
    ends = [*starts[1:], len(ids) - len(encoder.after)]
    for i in hidden:
        end = ends[i] if whole else starts[i] + 1
        ids[starts[i] : end] = [encoder.tokenizer.mask_token_id] * (end - starts[i])
    return Pieces((tuple(ids),), plain.at, plain.forms)
