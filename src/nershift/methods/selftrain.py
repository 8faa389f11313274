"""Self-training: a source model labels the target's raw text and learns from its most confident labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nershift.config import setting
from nershift.data.spans import Sentence
from nershift.errors import ConfigError, SetupError
from nershift.methods.base import TARGET, register
from nershift.methods.presets import CROSSLM, DEFAULT
from nershift.methods.source_only import SourceOnly
from nershift.methods.texts import TextMethod
from nershift.model import TaggingModel
from nershift.training.seeding import seed_torch
from nershift.training.stage import MixedStage, TrainingStage

_PRESETS = {"default": DEFAULT, "paper": CROSSLM}


@dataclass(frozen=True)
class SelfTrainOptions:
    keep: float = setting(
        0.5, "Share of the sentences with predicted entities to learn from, most confident first.", low=0, high=1
    )
    candidates: int = setting(20_000, "Most sentences of raw text to label, evenly spread over the text.", low=1)


@register("selftrain")
class SelfTrain(SourceOnly, TextMethod):
    """A sentence is as confident as its least probable entity. Sentences without entities are not learned from."""

    summary = "sources, then sources and raw target text with the model's most confident labels (no target labels)"
    paper = "CrossLM §4.4 (Self-Train)"
    presets = _PRESETS
    pools_sources = True
    keeps_sources = True
    Options = SelfTrainOptions

    def check(self) -> None:
        super().check()
        if not self.options.keep:
            raise ConfigError("found 0: nothing to learn from", place="options.keep", expected="more than 0, at most 1")
        if self.setup.target is not None and not self.setup.pretrained and TARGET not in self.texts():
            raise SetupError("there is no raw text of the target to label", place="--raw", expected="--raw target=FILE")

    def train(self, start: TaggingModel | None) -> TrainingStage:
        assert start is not None
        config = self.config.train
        key = next(key for key, _ in start.named_heads())
        chosen = most_confident(start.predict(key, self._candidates(), config.eval_batch_size, True), self.options.keep)
        if not chosen:
            raise SetupError(
                "the source model finds no entity in the target's raw text",
                place="--raw",
                fix="train longer (pretrain.epochs), or check that text and sources are in the same language",
            )
        seed_torch(self.config.seed, "words", TARGET)
        start.encoder.learn_words(sorted({t for s in chosen for t in s.tokens}))
        samplers = self.source_samplers(start, config) | {TARGET: self.sampler(start, key, chosen, config)}
        return MixedStage("train", start, config, samplers, self.config.seed, self.source_dev())

    def _candidates(self) -> list[Sentence]:
        text = self.texts()[TARGET]
        step = -(-len(text) // self.options.candidates)
        return [text[i].with_spans(()) for i in range(0, len(text), step)]


def most_confident(tagged: Sequence[Sentence], share: float) -> list[Sentence]:
    """The given share of the sentences with entities, ranked by their least probable entity; in their old order."""
    lowest = {i: min(span.score or 0.0 for span in s.spans) for i, s in enumerate(tagged) if s.spans}
    ranked = sorted(lowest, key=lambda i: -lowest[i])
    return [tagged[i] for i in sorted(ranked[: max(round(share * len(ranked)), 1)])]
