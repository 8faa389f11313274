"""Masked language modelling on raw text of any size, as a stage of the one training loop."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from nershift.config import TrainConfig
from nershift.dapt.masked_lm import MaskedEncoder
from nershift.dapt.masking import Masking, Rows, choose, corrupt
from nershift.data.spans import Sentence
from nershift.encoders.attention import steady_kernels
from nershift.errors import SetupError
from nershift.model import Batch, TaggingModel
from nershift.training.seeding import generator, number
from nershift.training.stage import Backward, TrainingStage

log = logging.getLogger(__name__)
_STRETCH = 32  # neighbouring sentences that are read together
_HELD_OUT = 64  # stretches held out at most


@dataclass
class MaskedBatch(Batch):
    """``inputs["chosen"]`` are the places (in the flat rows) to predict, ``tags`` the sub-words that stood there."""

    def __len__(self) -> int:
        return len(self.inputs["input_ids"])


def fingerprint(sentence: Sentence) -> int:
    """Equal for sentences that differ in case and spacing alone."""
    return number("".join("".join(sentence.tokens).lower().split()))


class MaskedSampler:
    """Batches of rows filled with neighbouring sentences; batch k is a function of the seed and k alone.

    A text on disk is too long to be shuffled: each epoch takes its stretches of sentences in another order. Some
    stretches, spread evenly, are held out. One batch is all that is in memory. A word of more sub-words than a row
    has room for is shown by its first ones.

    Args:
        batch_size: sentences a batch.
        banned: fingerprints of sentences that must not be learned from (dev and test of a target).
    """

    def __init__(
        self,
        model: MaskedEncoder,
        text: Sequence[Sentence],
        batch_size: int,
        seed: int,
        masking: Masking,
        share: float,
        hold_out: float,
        banned: Collection[int] = (),
    ) -> None:
        self.encoder, self.text, self.seed = model.encoder, text, seed
        self.masking, self.share, self.banned = masking, share, banned
        self.stretch = max(1, min(_STRETCH, batch_size, len(text) // 10))
        stretches = -(-len(text) // self.stretch)
        if stretches < 2:
            raise SetupError(
                f"{len(text)} sentences are too few to hold any out", place="--raw", expected="at least two"
            )
        held = min(_HELD_OUT, max(1, round(hold_out * stretches)), stretches // 2)
        self.held = np.array([(2 * i + 1) * stretches // (2 * held) for i in range(held)])
        self.learned = stretches - held
        self.each = max(1, batch_size // self.stretch)  # stretches a batch
        self.per_epoch = -(-self.learned // self.each)
        tokenizer = self.encoder.tokenizer
        special = set(tokenizer.all_special_ids)
        self.ordinary = np.array([i for i in range(len(tokenizer)) if i not in special])

    def batch(self, k: int, rank: int = 0, world: int = 1) -> MaskedBatch:
        epoch, at = divmod(k, self.per_epoch)
        rng = generator(self.seed, "masked feed", epoch)
        step, first = rng.randrange(1, self.learned + 1), rng.randrange(self.learned)
        while math.gcd(step, self.learned) != 1:
            step += 1
        places = range(at * self.each, min((at + 1) * self.each, self.learned))
        chosen = [self._skip((first + step * i) % self.learned) for i in places]
        if world > 1 and len(chosen) >= world:
            chosen = chosen[rank::world]
        return self._make(chosen, np.random.default_rng(number(self.seed, "mask", k, rank)))

    def held_out(self) -> list[MaskedBatch]:
        """The held-out text, masked in the same way every time."""
        parts = [self.held[i : i + self.each].tolist() for i in range(0, len(self.held), self.each)]
        return [
            self._make(part, np.random.default_rng(number(self.seed, "held out", n))) for n, part in enumerate(parts)
        ]

    def _skip(self, i: int) -> int:
        """The stretch behind the i-th one that is not held out."""
        return i + int(np.searchsorted(self.held - np.arange(len(self.held)), i, side="right"))

    def _make(self, stretches: Sequence[int], rng: np.random.Generator) -> MaskedBatch:
        rows, encoder = self._rows(stretches), self.encoder
        chosen, fate = choose(rows, self.masking, self.share, rng)
        if len(chosen) and not chosen.any():
            chosen[rng.integers(len(chosen))] = True
        seen = corrupt(rows, chosen, fate, encoder.tokenizer.mask_token_id, self.ordinary, rng)
        lengths = np.bincount(rows.rows, minlength=1)
        edge = len(encoder.before)
        width = int(lengths.max()) + edge + len(encoder.after)
        ids = np.full((len(lengths), width), encoder.pad)  # [R, S]
        ids[:, :edge] = encoder.before
        column = np.arange(len(seen)) - np.repeat(lengths.cumsum() - lengths, lengths) + edge
        ids[rows.rows, column] = seen
        for r, length in enumerate(lengths):
            ids[r, edge + length : edge + length + len(encoder.after)] = encoder.after
        shown = np.arange(width) < (lengths + edge + len(encoder.after))[:, None]
        inputs = {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(shown.astype(np.int64)),
            "chosen": torch.from_numpy((rows.rows * width + column)[chosen]),
        }
        return MaskedBatch("raw", (), inputs, torch.from_numpy(rows.pieces[chosen]))

    def _rows(self, stretches: Sequence[int]) -> Rows:
        """Sub-words of the stretches, cut into rows between words; a stretch begins a row."""
        pieces, words, rows = list[int](), list[int](), list[int]()
        word, row = -1, -1
        for stretch in stretches:
            sentences = self.text[stretch * self.stretch : (stretch + 1) * self.stretch]
            lists = [list(s.tokens) for s in sentences if not self.banned or fingerprint(s) not in self.banned]
            if not lists:
                continue
            encoded = self.encoder.tokenizer(lists, is_split_into_words=True, add_special_tokens=False)
            row, used = row + 1, 0
            for n, ids in enumerate(encoded["input_ids"]):
                for ids_of_word in _by_word(ids, encoded.word_ids(n)):
                    ids_of_word = ids_of_word[: self.encoder.room]
                    if used + len(ids_of_word) > self.encoder.room:
                        row, used = row + 1, 0
                    word, used = word + 1, used + len(ids_of_word)
                    pieces += ids_of_word
                    words += [word] * len(ids_of_word)
                    rows += [row] * len(ids_of_word)
        if rows and len(set(rows)) <= max(rows):  # a stretch without any sub-word leaves its row empty
            rows = np.unique(rows, return_inverse=True)[1].tolist()
        return Rows(*(np.array(x, dtype=np.int64) for x in (pieces, words, rows)))


def _by_word(ids: Sequence[int], word_ids: Sequence[int | None]) -> list[list[int]]:
    out, before = list[list[int]](), None
    for piece, word in zip(ids, word_ids, strict=True):
        if word != before:
            out.append([])
        out[-1].append(piece)
        before = word
    return out


class MaskedStage(TrainingStage):
    """Predicts hidden sub-words; the weights with the lowest loss on held-out text are kept."""

    def __init__(
        self, model: MaskedEncoder, sampler: MaskedSampler, config: TrainConfig, seed: int, every: int
    ) -> None:
        tagging = TaggingModel(model.encoder, {}, {"masked": model.head})
        super().__init__("dapt", tagging, config, {}, seed, steps_per_epoch=every)
        self.head, self.encoder, self.sampler = model.head, model.encoder, sampler
        self.held_out = sampler.held_out()

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        return {"raw": self.sampler.batch(step, rank, world)}

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        losses = self._losses(batches["raw"])
        loss = losses.sum() / max(1, len(losses))
        backward(loss)
        return {"loss": loss.detach()}

    def _losses(self, batch: Batch) -> Tensor:
        """Of each hidden sub-word; the head runs on these alone, not on all of the rows."""
        inputs, device = batch.inputs, self.model.device
        moved: dict[str, Any] = {k: v.to(device, non_blocking=True) for k, v in inputs.items()}
        assert batch.tags is not None
        with steady_kernels(moved["input_ids"]):
            states = self.encoder.model(
                input_ids=moved["input_ids"], attention_mask=moved["attention_mask"]
            ).last_hidden_state  # [R, S, H]
        hidden = states.flatten(0, 1)[moved["chosen"]]  # [N, H]
        scores = self.head(hidden, self.encoder.model.get_input_embeddings().weight)  # [N, V]
        return cross_entropy(scores.float(), batch.tags.to(device, non_blocking=True), reduction="none")

    @torch.no_grad()
    def validate(self) -> float:
        self.model.eval()
        losses = [self._losses(batch) for batch in self.held_out]
        self.model.train()
        return -float(torch.cat(losses).mean())

    def told(self, score: float | None) -> dict[str, float | None]:
        assert score is not None
        log.info("held-out loss %.4f", -score)
        return {"held_out_loss": -score}

    def note(self, best: float) -> str:
        return f"best held-out loss {-best:.4f}"
