"""Endless batches of unlabelled text, in memory or on disk; batch k is a function of the seed and k alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from nershift.data.spans import Sentence
from nershift.encoders.recurrent import RecurrentEncoder, gather
from nershift.errors import SetupError
from nershift.model import Batch, TaggingModel
from nershift.text.counts import BOUNDARY, OutputWords
from nershift.text.word_cache import WordCache
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import generator

_POOL = 50  # batches whose sentences are in memory, sorted by length together
_STRETCH = 2  # batches of neighbouring sentences that are read together


class RawBatchSampler(BatchSampler):
    """Batches for language modelling: ``inputs["words"] [B, L]`` holds output ids, the boundary under padding.

    A text on disk is too long to shuffle. Each epoch reads stretches of neighbouring sentences in a new order, and
    shuffles the sentences of as many stretches as fill fifty batches (a pool). Only one pool is in memory.

    Args:
        key: names the sampler; part of what seeds its order.
        text: sentences, or a :class:`~nershift.data.raw.RawText`.
        vocabulary: the words to predict; None omits ``words``.
    """

    def __init__(
        self,
        model: TaggingModel,
        key: str,
        text: Sequence[Sentence],
        batch_size: int,
        seed: int,
        vocabulary: OutputWords | None = None,
    ) -> None:
        if not len(text):
            raise SetupError(f"no sentences to learn from in '{key}'", place="--raw")
        if not isinstance(model.encoder, RecurrentEncoder):
            raise SetupError("raw text is read word by word", place="encoder.kind", expected="a recurrent encoder")
        self.model, self.key, self.batch_size, self.seed = model, key, batch_size, seed
        self.text, self.vocabulary = text, vocabulary
        self.per_epoch = -(-len(text) // batch_size)
        self._pool, self._batches = (-1, -1), list[list[int]]()
        self._encoder = model.encoder

    def _load(self, epoch: int, pool: int) -> None:
        """Read the pool's sentences and assign them to batches."""
        stretch = _STRETCH * self.batch_size
        whole, count = len(self.text) // stretch, _POOL // _STRETCH
        rng = generator(self.seed, "raw feed", self.key, epoch)
        step, first = _coprime(whole, rng.randrange(whole or 1) + 1), rng.randrange(whole or 1)
        sentences: list[Sentence] = []
        for i in range(pool * count, min((pool + 1) * count, whole)):
            at = (first + step * i) % whole  # runs through every stretch once
            sentences += self.text[at * stretch : (at + 1) * stretch]
        if (pool + 1) * count > whole:
            sentences += self.text[whole * stretch :]  # the rest, too short for a stretch, ends the epoch
        rng = generator(self.seed, "raw feed", self.key, epoch, pool)
        order = list(range(len(sentences)))
        rng.shuffle(order)
        order.sort(key=lambda i: len(sentences[i]))
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        rng.shuffle(batches)
        # A new cache: numbers of word forms must not depend on what was read before, since their order in a batch
        # decides the order in which gradients are summed.
        words, shape = self._encoder.words, self._encoder.config.chars
        self._cache = WordCache(words.vocabulary, self._encoder.characters, shape.max_length)
        self._forms = [np.array(self._cache.numbers(s.tokens), dtype=np.int64) for s in sentences]
        self.sentences, self._batches, self._pool = sentences, batches, (epoch, pool)

    def indices(self, k: int) -> list[int]:
        """The sentences of batch ``k`` in its pool, which is loaded if it is not the current one."""
        epoch, at = divmod(k, self.per_epoch)
        pool, at = divmod(at, _POOL)
        if (epoch, pool) != self._pool:
            self._load(epoch, pool)
        return self._batches[at]

    def batch(self, k: int, rank: int = 0, world: int = 1) -> Batch:
        chosen = self.indices(k)
        if world > 1 and len(chosen) >= world:
            chosen = chosen[rank::world]
        sentences = [self.sentences[i] for i in chosen]
        inputs = gather([self._forms[i] for i in chosen], self._cache, self._encoder.rounding)
        if self.vocabulary is not None:
            words = torch.full(inputs["mask"].shape, BOUNDARY)
            ids = np.concatenate([self.vocabulary.ids(s.tokens) for s in sentences])
            words[inputs["mask"]] = torch.from_numpy(ids)
            inputs["words"] = words
        return Batch(self.key, sentences, inputs).to(self.model.device)


def _coprime(n: int, start: int) -> int:
    """The first number from ``start`` on that is coprime with ``n``."""
    while math.gcd(start, n) != 1 and n > 1:
        start += 1
    return start
