"""Pseudo tasks (eq. 4): each sentence is a query, its nearest neighbours are its supports, entities are masked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from nershift.data.spans import Sentence
from nershift.encoders.transformer import TransformerEncoder
from nershift.errors import ConfigError
from nershift.methods.metacross.batched_adaptation.layout import windows
from nershift.methods.metacross.options import MetaCrossOptions
from nershift.methods.metacross.retrieval import distinct
from nershift.methods.metacross.support import SupportIndex
from nershift.methods.metacross.token_classifier import transformer_of
from nershift.model import Batch, TaggingModel
from nershift.text.subwords import Pieces
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import generator

Kind = Literal["query", "support"]


@dataclass
class TaskBatch(Batch):
    """Queries of some tasks, or their supports, task after task."""

    windows: Sequence[int] = ()  # of each sentence
    number: int = 0  # of the batch
    tasks: Sequence[int] = ()  # which sentences are the queries
    whole: int = 0  # tasks of the whole batch, including other groups and processes


class TaskSampler(BatchSampler):
    """Batches of tasks.

    Args:
        index: makes the index of the sentences, after the model has moved to its device.
    """

    def __init__(
        self,
        model: TaggingModel,
        key: str,
        sentences: Sequence[Sentence],
        batch_size: int,
        seed: int,
        options: MetaCrossOptions,
        index: Callable[[], SupportIndex],
    ) -> None:
        super().__init__(model, key, sentences, batch_size, seed)
        self.encoder, self.options, self._make_index = transformer_of(model), options, index
        if options.mask_rate and self.encoder.tokenizer.mask_token_id is None:
            raise ConfigError(
                "the tokenizer has no mask token",
                place="encoder.transformer.name",
                fix="use another encoder, or --set options.mask_rate=0",
            )
        # The index holds the first sentence with each text, in this order.
        self._first, self._of_text = distinct(s.tokens for s in self.sentences)

    @cached_property
    def index(self) -> SupportIndex:
        return self._make_index()

    @cached_property
    def _neighbours(self) -> list[list[int]]:
        return self.index.tasks(self.model.device)

    def neighbours(self, i: int) -> list[int]:
        """The supports of sentence ``i``, by their numbers in the index."""
        return self._neighbours[self._of_text[i]]

    def positions(self, i: int) -> int:
        """Sub-words in the supports of sentence ``i``."""
        return sum(len(w) for j in self.neighbours(i) for w in self._prepared[self._first[j]].ids)

    def part(self, number: int, tasks: Sequence[int], whole: int) -> tuple[TaskBatch, TaskBatch]:
        """Queries and supports of some tasks of batch ``number``, which has ``whole`` of them."""
        supports = [j for i in tasks for j in self.neighbours(i)]
        return self._batch("query", tasks, number, tasks, whole), self._batch("support", supports, number, tasks, whole)

    def _batch(self, kind: Kind, rows: Sequence[int], number: int, tasks: Sequence[int], whole: int) -> TaskBatch:
        pieces = [self.masked(number // self.per_epoch, kind, i) for i in rows]
        at = [self._at(kind, i) for i in rows]
        assert self._targets is not None
        batch = self.model.batch(self.key, [self.sentences[i] for i in at], pieces, [self._targets[i] for i in at])
        return TaskBatch(**vars(batch), windows=windows(pieces), number=number, tasks=tasks, whole=whole)

    def _at(self, kind: Kind, i: int) -> int:
        """Queries are numbered as the sentences are, supports as in the index."""
        return i if kind == "query" else self._first[i]

    def masked(self, epoch: int, kind: Kind, i: int) -> Pieces:
        """Sub-words of a sentence in which tokens of entities are masked at random (Masking on Named Entities)."""
        sentence, plain = self.sentences[self._at(kind, i)], self._prepared[self._at(kind, i)]
        inside = [at for span in sentence.spans for at in range(span.start, span.end)]
        options = self.options
        if not inside or not options.mask_rate or (kind == "support" and not options.mask_support):
            return plain
        rng = generator(self.seed, "mask", epoch, kind, i)
        hidden = {at for at in inside if rng.random() < options.mask_rate}
        return hide(self.encoder, sentence.tokens, plain, hidden, options.mask == "word")


def hide(
    encoder: TransformerEncoder, tokens: Sequence[str], plain: Pieces, hidden: Collection[int], whole: bool = True
) -> Pieces:
    """The same as ``encoder.prepare(tokens, hidden, whole)``, but from what it prepared without masks."""
    if not hidden:
        return plain
    if len(plain.ids) > 1:  # a token may be in two windows
        return encoder.prepare(tokens, hidden, whole)
    ids = list(plain.ids[0])
    starts = [at for _, at in plain.at]
    ends = [*starts[1:], len(ids) - len(encoder.after)]
    for i in hidden:
        end = ends[i] if whole else starts[i] + 1
        ids[starts[i] : end] = [encoder.tokenizer.mask_token_id] * (end - starts[i])
    return Pieces((tuple(ids),), plain.at, plain.forms)
