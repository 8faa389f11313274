"""Self-training: a source model labels the target's raw text, and learns from what it is surest of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nershift.data.spans import Sentence
from nershift.errors import ConfigError, SetupError
from nershift.methods.base import TARGET, register
from nershift.methods.presets import CROSSLM
from nershift.methods.source_only import DShift
from nershift.methods.texts import TextMethod
from nershift.model import TaggingModel
from nershift.training.seeding import seed_torch
from nershift.training.stage import MixedStage, TrainingStage

_PRESETS = {"paper": CROSSLM}


@dataclass(frozen=True)
class SelfTrainOptions:
    keep: float = 0.5  # share of the sentences with predicted entities, the surest ones, that are learned from
    candidates: int = 20_000  # sentences of raw text that are labelled, evenly spread over it


@register("selftrain")
class SelfTrain(DShift, TextMethod):
    """A sentence is as sure as its least probable entity; one without entities teaches nothing here."""

    summary = "sources, then sources and raw target text with the model's own surest labels (no target labels)"
    paper = "CrossLM §4.4 (Self-Train)"
    presets = _PRESETS
    Options = SelfTrainOptions

    def check(self) -> None:
        super().check()
        if not 0 < self.options.keep <= 1:
            raise ConfigError(f"found {self.options.keep}", place="options.keep", expected="0 < keep <= 1")
        if self.setup.target is not None and not self.setup.pretrained and TARGET not in self.texts():
            raise SetupError("there is no raw text of the target to label", place="--raw", expected="--raw target=FILE")

    def train(self, start: TaggingModel | None) -> TrainingStage:
        assert start is not None
        config = self.config.train
        key = next(key for key, _ in start.named_heads())
        chosen = surest(start.predict(key, self._candidates(), config.eval_batch_size, True), self.options.keep)
        if not chosen:
            raise SetupError(
                "the source model finds no entity in the target's raw text",
                place="--raw",
                fix="train it for longer (pretrain.epochs), or check that text and sources have a language in common",
            )
        seed_torch(self.config.seed, "words", TARGET)
        start.encoder.learn_words(sorted({t for s in chosen for t in s.tokens}))
        samplers = self.source_samplers(start, config) | {TARGET: self.sampler(start, key, chosen, config)}
        return MixedStage("train", start, config, samplers, self.config.seed, self.source_dev())

    def _candidates(self) -> list[Sentence]:
        text = self.texts()[TARGET]
        step = -(-len(text) // self.options.candidates)
        return [text[i].with_spans(()) for i in range(0, len(text), step)]


def surest(tagged: Sequence[Sentence], share: float) -> list[Sentence]:
    """The given share of the sentences with entities, by the probability of the least probable one."""
    sure = [(min(span.score or 0.0 for span in s.spans), -i) for i, s in enumerate(tagged) if s.spans]
    kept = sorted(sure, reverse=True)[: round(share * len(sure)) or len(sure[:1])]
    return [tagged[-i] for i in sorted((i for _, i in kept), reverse=True)]
