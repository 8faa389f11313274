"""Batches of text that a teacher has labelled; what they hold changes when it is labelled again."""

from __future__ import annotations

from collections.abc import Sequence

from nershift.data.spans import Sentence
from nershift.heads.soft import SoftTargets
from nershift.methods.teacher_student.teacher import Labelled
from nershift.model import Batch, TaggingModel
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import generator

_POOL = 50  # batches whose sentences are sorted by length together


class TextSampler(BatchSampler):
    """The text is prepared once, and in one order, so that a resumed run sees the very same batches.

    ``per_epoch`` is that of the whole text, whatever part of it is learned from.
    """

    def __init__(
        self, model: TaggingModel, key: str, sentences: Sequence[Sentence], batch_size: int, seed: int
    ) -> None:
        super().__init__(model, key, sentences, batch_size, seed, labelled=False)
        self.round, self.chosen = 0, list[int]()
        self._labelled = Labelled([], None)

    def take(self, round: int, chosen: Sequence[int], labelled: Labelled) -> None:
        """From now on, give the sentences ``chosen`` with these labels."""
        self.round, self.chosen, self._labelled = round, list(chosen), labelled
        self._epoch, self._order = -1, []

    def indices(self, k: int) -> list[int]:
        """The sentences of the round's batch ``k``."""
        epoch, at = divmod(k, -(-len(self.chosen) // self.batch_size))
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._shuffled(epoch)
        return self._order[at]

    def _shuffled(self, epoch: int) -> list[list[int]]:
        rng = generator(self.seed, "feed", self.key, "text", self.round, epoch)
        order = list(self.chosen)
        rng.shuffle(order)
        batches, pool = [], _POOL * self.batch_size
        for i in range(0, len(order), pool):
            near = sorted(order[i : i + pool], key=lambda j: len(self.sentences[j]))
            batches += [near[j : j + self.batch_size] for j in range(0, len(near), self.batch_size)]
        rng.shuffle(batches)
        return batches

    def as_labelled(self, chosen: Sequence[int]) -> Batch:
        prepared, soft = [self._prepared[i] for i in chosen], self._labelled.soft
        tagged = [self._labelled.sentences[i] for i in chosen]
        if soft is None:
            head = self.model.head(self.key)
            return self.model.batch(self.key, tagged, prepared, [head.targets(s) for s in tagged])
        batch = self.model.batch(self.key, tagged, prepared)
        rows = SoftTargets.of_rows([soft[i] for i in chosen], batch.mask)
        return Batch(self.key, tagged, batch.inputs, soft=rows.to(self.model.device))
