"""Features of a pre-trained bidirectional language model: the ELMo-like baseline of CrossLM's tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from nershift.config import EncoderConfig
from nershift.data.raw import Joined
from nershift.data.spans import Sentence
from nershift.encoders.base import make_encoder
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.errors import SetupError
from nershift.methods.base import TARGET, register
from nershift.methods.crosslm.lm_features import LMFeatureEncoder
from nershift.methods.crosslm.sampled_softmax import SampledSoftmax, language_model_loss
from nershift.methods.presets import CROSSLM
from nershift.methods.texts import TextMethod
from nershift.model import Batch, TaggingModel
from nershift.text.counts import OutputWords
from nershift.training.raw_sampler import RawBatchSampler
from nershift.training.seeding import seed_torch
from nershift.training.stage import MixedStage, TrainingStage

_PRESETS = {"paper": CROSSLM}


@dataclass(frozen=True)
class BiLMOptions:
    texts: Literal["both", "source", "target"] = "both"  # whose text the language model learns
    size: int = 256  # of a direction
    dropout: float = 0.1  # of the language model
    vocabulary: int = 50_000  # words to predict
    min_count: int = 1
    negatives: int = 50
    correct: bool = True  # see nn.sampled_softmax


class LanguageModelStage(TrainingStage):
    """Eq. 8 of CrossLM, on one sampler of text."""

    def loss(self, batches: Mapping[str, Batch]) -> Tensor:
        (batch,) = batches.values()
        head = self.model.extras["lm"]
        assert isinstance(head, SampledSoftmax)
        return language_model_loss(head, self.model.states(batch), batch.inputs["words"], batch.mask)


@register("bilm")
class BiLM(TextMethod):
    """Pre-training is language modelling; then labels are learned with the language model's states as features.

    Those are the target's labels, or without any, the sources'.
    """

    summary = "features of a language model of raw text; trained on target labels, or without any on the sources'"
    paper = "CrossLM §4.2 (STM+ELMo)"
    can_do_without = True
    presets = _PRESETS
    Options = BiLMOptions

    def check(self) -> None:
        super().check()
        if not self._texts():
            raise SetupError(
                f"there is no text of '{self.options.texts}' to learn a language model from",
                place="--raw",
                expected="--raw target=FILE, --raw source=FILE",
            )
        if not self.labelled:
            self.check_source_head()

    @property
    def uses_sources(self) -> bool:
        return self.options.texts != "target" or not self.labelled

    def _texts(self) -> list[Sequence[Sentence]]:
        wanted = {"both": (True, False), "target": (True,), "source": (False,)}[self.options.texts]
        return [text for domain, text in self.texts().items() if (domain == TARGET) in wanted]

    def pretrain(self) -> TrainingStage:
        config, options, text = self.config.pretrain, self.options, Joined(self._texts())
        words = OutputWords.of({"all": text}, options.vocabulary, options.min_count)
        seed_torch(self.config.seed, "language model")
        encoder = make_encoder(self._lm_config(), [Sentence.of(words.words)])
        head = SampledSoftmax(encoder.size // 2, words.frequencies, options.negatives, options.correct)
        model = TaggingModel(encoder, {}, {"lm": head})
        sampler = RawBatchSampler(model, "text", text, config.batch_size, self.config.seed, words)
        return LanguageModelStage("pretrain", model, config, {"text": sampler}, self.config.seed)

    def _lm_config(self) -> EncoderConfig:
        config, dropout = self.config.encoder, self.options.dropout
        shape = dataclasses.replace(config.recurrent, cell="lstm", size=self.options.size, layers=1)
        return dataclasses.replace(config, recurrent=shape, dropout=dropout, input_dropout=dropout)

    def train(self, start: TaggingModel | None) -> TrainingStage:
        assert start is not None
        config = self.config.train
        if self.labelled:
            model = self._with_features(self.new_model(self.labelled, {TARGET: self.target_space}), start)
            samplers = {TARGET: self.sampler(model, TARGET, self.labelled, config)}
            dev: Sequence[tuple[str, Sequence[Sentence]]] = [(TARGET, self.target.splits.get("dev", ()))]
        else:
            model = self._with_features(self.source_model(), start)
            samplers, dev = self.source_samplers(model, config), self.source_dev()
        return MixedStage("train", model, config, samplers, self.config.seed, dev)

    def _with_features(self, model: TaggingModel, start: TaggingModel) -> TaggingModel:
        plain, lm = model.encoder, start.encoder
        assert isinstance(plain, RecurrentEncoder)
        assert isinstance(lm, RecurrentEncoder)
        seed_torch(self.config.seed, "features")
        return TaggingModel(LMFeatureEncoder.over(plain, lm), dict(model.named_heads())).to(start.device)

    def finish(self, model: TaggingModel) -> TaggingModel:
        (head,) = (d for _, d in model.named_heads())
        return TaggingModel(model.encoder, {TARGET: head}).to(model.device)
