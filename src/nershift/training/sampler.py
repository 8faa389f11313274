"""Endless batches of one set of sentences; batch k is a function of the seed and k alone."""

from __future__ import annotations

from collections.abc import Sequence

from nershift.data.spans import Sentence
from nershift.errors import SetupError
from nershift.model import Batch, TaggingModel
from nershift.training.mention_replacement import mentions_by_type, replace_mentions
from nershift.training.seeding import generator

_POOL = 50  # batches whose sentences are sorted by length together


class BatchSampler:
    """Batches for the head ``key``, of sentences of similar length, reshuffled each epoch.

    Args:
        key: name of the head (for raw text: of the domain).
        labelled: whether batches carry targets.
        mention_replacement: share of entities replaced by another one of their type, redrawn for every batch.
    """

    mention_replacement = 0.0  # of samplers without entities

    def __init__(
        self,
        model: TaggingModel,
        key: str,
        sentences: Sequence[Sentence],
        batch_size: int,
        seed: int,
        labelled: bool = True,
        mention_replacement: float = 0.0,
    ) -> None:
        self.model, self.key, self.batch_size, self.seed = model, key, batch_size, seed
        self.mention_replacement = mention_replacement
        self.sentences = [s for s in sentences if len(s)]
        if not self.sentences:
            raise SetupError(
                f"no sentences to train on in '{key}'",
                fix="ask for more (--shots, --ratio), hold out less of a small corpus (--hold-out), or check the "
                "files with `nershift check`",
            )
        self._prepared = [model.encoder.prepare(s.tokens) for s in self.sentences]
        self._targets = [model.head(key).targets(s) for s in self.sentences] if labelled else None
        self.per_epoch = -(-len(self.sentences) // batch_size)
        self._epoch, self._order = -1, list[list[int]]()
        self._entities = mentions_by_type(self.sentences) if mention_replacement else {}

    def indices(self, k: int) -> list[int]:
        """Which sentences batch ``k`` holds."""
        epoch, at = divmod(k, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._shuffled(epoch)
        return self._order[at]

    def _shuffled(self, epoch: int) -> list[list[int]]:
        rng = generator(self.seed, "feed", self.key, epoch)
        order = list(range(len(self.sentences)))
        rng.shuffle(order)
        pool = _POOL * self.batch_size
        batches = []
        for i in range(0, len(order), pool):
            near = sorted(order[i : i + pool], key=lambda j: len(self.sentences[j]))
            batches += [near[j : j + self.batch_size] for j in range(0, len(near), self.batch_size)]
        rng.shuffle(batches)
        return batches

    def batch(self, k: int, rank: int = 0, world: int = 1) -> Batch:
        """Batch ``k``, or the share of it that process ``rank`` of ``world`` computes.

        A batch with fewer sentences than processes is computed whole by each of them.
        """
        chosen = self.indices(k)
        if world > 1 and len(chosen) >= world:
            chosen = chosen[rank::world]
        return self._replaced(chosen, k) if self.mention_replacement else self.as_labelled(chosen)

    def as_labelled(self, chosen: Sequence[int]) -> Batch:
        """A batch of these sentences, none of them changed."""
        return self.model.batch(
            self.key,
            [self.sentences[i] for i in chosen],
            [self._prepared[i] for i in chosen],
            [self._targets[i] for i in chosen] if self._targets is not None else None,
        )

    def _replaced(self, chosen: Sequence[int], k: int) -> Batch:
        """These sentences with other entities, which only depend on the seed, the sentence and ``k``."""
        sentences = []
        for i in chosen:
            rng = generator(self.seed, "swap", self.key, k, i)
            sentences.append(replace_mentions(self.sentences[i], self._entities, self.mention_replacement, rng))
        prepared = [self.model.encoder.prepare(s.tokens) for s in sentences]
        targets = [self.model.head(self.key).targets(s) for s in sentences] if self._targets is not None else None
        return self.model.batch(self.key, sentences, prepared, targets)
