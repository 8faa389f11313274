"""Masked language modelling on raw text of any size, as a stage of the one training loop."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from nershift.config import TrainConfig
from nershift.dapt.config import DaptConfig
from nershift.dapt.masked_lm import MaskedLM
from nershift.dapt.masking import Rows, choose, corrupt
from nershift.data.spans import Sentence
from nershift.encoders.attention import steady_kernels
from nershift.errors import SetupError
from nershift.model import Batch, TaggingModel
from nershift.text.subwords import windows
from nershift.training.seeding import generator, number
from nershift.training.stage import Backward, TrainingStage

log = logging.getLogger(__name__)
_BLOCK = 32  # neighbouring sentences that are read together
_MAX_HELD_OUT = 64  # blocks


class MaskedBatch(Batch):
    """``inputs["masked"]`` are positions of the flattened rows to predict, ``inputs["labels"]`` their sub-words."""

    def __len__(self) -> int:
        return len(self.inputs["input_ids"])


def fingerprint(sentence: Sentence) -> int:
    """Equal for sentences that differ only in case and spacing."""
    return number("".join("".join(sentence.tokens).lower().split()))


class MaskedSampler:
    """Batches of rows filled with neighbouring sentences; batch k is a function of the seed and k alone.

    A text on disk is too long to shuffle: each epoch takes its blocks of sentences in another order. Some blocks,
    spread evenly, are held out. Only one batch is in memory. A word with more sub-words than fit a row is cut.

    Args:
        excluded: fingerprints of sentences that must not be learned (dev and test of a target).
    """

    def __init__(
        self, model: MaskedLM, text: Sequence[Sentence], settings: DaptConfig, excluded: Collection[int] = ()
    ) -> None:
        self.encoder, self.text, self.settings, self.excluded = model.encoder, text, settings, excluded
        batch_size = settings.train.batch_size
        self.block = max(1, min(_BLOCK, batch_size, len(text) // 10))  # sentences
        blocks = -(-len(text) // self.block)
        if blocks < 2:
            raise SetupError(
                f"{len(text)} sentences are too few to hold any out", place="--raw", expected="at least two"
            )
        held = min(_MAX_HELD_OUT, max(1, round(settings.hold_out * blocks)), blocks // 2)
        self.held = np.array([(2 * i + 1) * blocks // (2 * held) for i in range(held)])
        self.learned = blocks - held
        self.each = max(1, batch_size // self.block)  # blocks per batch
        self.per_epoch = -(-self.learned // self.each)
        tokenizer = self.encoder.tokenizer
        self.ordinary = np.setdiff1d(np.arange(len(tokenizer)), tokenizer.all_special_ids)

    def batch(self, k: int, rank: int = 0, world: int = 1) -> MaskedBatch:
        epoch, at = divmod(k, self.per_epoch)
        rng = generator(self.settings.seed, "masked feed", epoch)
        step, first = rng.randrange(1, self.learned + 1), rng.randrange(self.learned)
        while math.gcd(step, self.learned) != 1:
            step += 1
        places = range(at * self.each, min((at + 1) * self.each, self.learned))
        blocks = [self._skip_held((first + step * i) % self.learned) for i in places]
        if world > 1 and len(blocks) >= world:
            blocks = blocks[rank::world]
        return self._make(blocks, np.random.default_rng(number(self.settings.seed, "mask", k, rank)))

    def held_out(self) -> list[MaskedBatch]:
        """The held-out text, masked in the same way every time."""
        parts = [self.held[i : i + self.each].tolist() for i in range(0, len(self.held), self.each)]
        seed = self.settings.seed
        return [self._make(part, np.random.default_rng(number(seed, "held out", n))) for n, part in enumerate(parts)]

    def _skip_held(self, i: int) -> int:
        """The i-th block that is not held out."""
        return i + int(np.searchsorted(self.held - np.arange(len(self.held)), i, side="right"))

    def _make(self, blocks: Sequence[int], rng: np.random.Generator) -> MaskedBatch:
        rows, encoder = self._rows(blocks), self.encoder
        chosen, draws = choose(rows, self.settings.masking, self.settings.share, rng)
        if len(chosen) and not chosen.any():
            chosen[rng.integers(len(chosen))] = True
        before, after = len(encoder.before), len(encoder.after)
        ends = before + np.bincount(rows.rows, minlength=1)[:, None]  # [R, 1]
        columns = np.arange(ends.max() + after)
        words = (columns >= before) & (columns < ends)  # [R, S]
        ids = np.full(words.shape, encoder.pad)
        ids[:, :before] = encoder.before
        ids[words] = corrupt(rows, chosen, draws, encoder.tokenizer.mask_token_id, self.ordinary, rng)
        np.put_along_axis(ids, ends + np.arange(after), np.array([encoder.after], np.int64), 1)
        inputs = {
            "input_ids": ids,
            "attention_mask": (columns < ends + after).astype(np.int64),
            "masked": np.flatnonzero(words)[chosen],
            "labels": rows.subwords[chosen],
        }
        return MaskedBatch("raw", (), {name: torch.from_numpy(x) for name, x in inputs.items()})

    def _rows(self, blocks: Sequence[int]) -> Rows:
        """Sub-words of the blocks, split into rows between words; each block begins a row."""
        rows = list[list[list[int]]]()  # of words, of sub-words
        for block in blocks:
            words = self._words(self.text[block * self.block : (block + 1) * self.block])
            if words:
                parts = windows([len(word) for word in words], self.encoder.room, overlap=0)
                rows += [words[part.start : part.end] for part in parts]
        lengths = [len(word) for row in rows for word in row]
        return Rows(
            np.array([i for row in rows for word in row for i in word], dtype=np.int64),
            np.repeat(np.arange(len(lengths)), lengths),
            np.repeat(np.arange(len(rows)), [sum(map(len, row)) for row in rows]),
        )

    def _words(self, sentences: Sequence[Sentence]) -> list[list[int]]:
        """The sub-words of each word that has any."""
        tokens = [list(s.tokens) for s in sentences if not self.excluded or fingerprint(s) not in self.excluded]
        if not tokens:
            return []
        encoded = self.encoder.tokenizer(tokens, is_split_into_words=True, add_special_tokens=False)
        words = list[list[int]]()
        for n, ids in enumerate(encoded["input_ids"]):
            by_word = groupby(zip(encoded.word_ids(n), ids, strict=True), itemgetter(0))
            words += [[i for _, i in pairs][: self.encoder.room] for _, pairs in by_word]
        return words


class MaskedStage(TrainingStage):
    """Predicts masked sub-words; the weights with the lowest loss on held-out text are kept."""

    def __init__(self, model: MaskedLM, sampler: MaskedSampler, config: TrainConfig, seed: int, every: int) -> None:
        tagging = TaggingModel(model.encoder, {}, {"masked": model.head})
        super().__init__("dapt", tagging, config, {}, seed, steps_per_epoch=every)
        self.masked_lm, self.sampler = model, sampler
        self.held_out = sampler.held_out()

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        return {"raw": self.sampler.batch(step, rank, world)}

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        losses = self._losses(batches["raw"])
        loss = losses.sum() / max(1, len(losses))
        backward(loss)
        return {"loss": loss.detach()}

    def _losses(self, batch: Batch) -> Tensor:
        """Of each masked sub-word, ``[N]``."""
        ids, attention, masked, labels = (
            batch.inputs[name].to(self.model.device, non_blocking=True)
            for name in ("input_ids", "attention_mask", "masked", "labels")
        )
        with steady_kernels(ids):
            logits = self.masked_lm.logits(ids, attention, masked)
        return cross_entropy(logits.float(), labels, reduction="none")

    @torch.no_grad()
    def validate(self) -> float:
        self.model.eval()
        losses = [self._losses(batch) for batch in self.held_out]
        self.model.train()
        return -float(torch.cat(losses).mean())

    def log_values(self, score: float | None) -> dict[str, float | None]:
        if score is None:
            return {}
        log.info("held-out loss %.4f", -score)
        return {"held_out_loss": -score}

    def note(self, best: float) -> str:
        return f"best held-out loss {-best:.4f}"
