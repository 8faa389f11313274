"""Features of a pre-trained bidirectional language model: the ELMo-like baseline of CrossLM's tables."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from nershift.config import EncoderConfig, TrainConfig, setting
from nershift.data.labels import LabelSpace
from nershift.data.raw import Joined
from nershift.data.spans import Sentence
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.errors import SetupError
from nershift.methods.base import TARGET, register
from nershift.methods.crosslm.lm_features import LMFeatureEncoder
from nershift.methods.crosslm.sampled_softmax import SampledSoftmax, language_model_loss
from nershift.methods.presets import CROSSLM, CROSSLM_DEFAULT
from nershift.methods.texts import TextMethod
from nershift.model import Batch, TaggingModel
from nershift.text.counts import OutputWords
from nershift.training.raw_sampler import RawBatchSampler
from nershift.training.seeding import seed_torch
from nershift.training.stage import MixedStage, TrainingStage


@dataclass(frozen=True)
class BiLMOptions:
    texts: Literal["both", "source", "target"] = setting("both", "Whose text the language model reads.")
    lm_size: int = setting(256, "Hidden units per direction of the language model.", was="size", low=1)
    dropout: float = setting(0.1, "Dropout of the language model, on inputs and states.", low=0, high=1)
    vocabulary: int = setting(50_000, "Words to predict.", low=1)
    min_count: int = setting(1, "Least count of such a word.", low=0)
    negatives: int = setting(50, "Negative samples per step.", low=1)
    subtract_log_q: bool = setting(
        True, "Subtract the log of a word's chance to be drawn from its score.", was="correct"
    )


class LanguageModelStage(TrainingStage):
    """Eq. 8 on one sampler of text."""

    def __init__(
        self, model: TaggingModel, head: SampledSoftmax, config: TrainConfig, sampler: RawBatchSampler, seed: int
    ) -> None:
        super().__init__("pretrain", model, config, {"text": sampler}, seed)
        self.head = head

    def loss(self, batches: Mapping[str, Batch]) -> Tensor:
        (batch,) = batches.values()
        return language_model_loss(self.head, self.model.states(batch), batch.inputs["words"], batch.mask)


@register("bilm")
class BiLM(TextMethod):
    """Pre-trains a language model, then learns labels with its states as features.

    The labels are the target's or, if it has none, the sources'.
    """

    summary = "features of a language model of raw text; trained on target labels, or without any on the sources'"
    paper = "CrossLM §4.2 (STM+ELMo)"
    can_do_without = True
    presets: ClassVar = {"default": CROSSLM_DEFAULT, "paper": CROSSLM}
    Options = BiLMOptions
    options: BiLMOptions

    def check(self) -> None:
        super().check()
        self.need_recurrent("the language model's states are inputs of a recurrent layer")
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
        encoder = RecurrentEncoder.new(self._lm_config(), Counter(words.words))
        head = SampledSoftmax(encoder.size // 2, words.frequencies, options.negatives, options.subtract_log_q)
        model = TaggingModel(encoder, {}, {"lm": head})
        sampler = RawBatchSampler(model, "text", text, config.batch_size, self.config.seed, words)
        return LanguageModelStage(model, head, config, sampler, self.config.seed)

    def _lm_config(self) -> EncoderConfig:
        config, dropout = self.config.encoder, self.options.dropout
        shape = dataclasses.replace(config.recurrent, cell="lstm", size=self.options.lm_size, layers=1)
        return dataclasses.replace(config, recurrent=shape, dropout=dropout, input_dropout=dropout)

    def train(self, start: TaggingModel | None) -> TrainingStage:
        config, keys = self.config.train, self.source_keys()
        if self.labelled:
            spaces = {TARGET: self.target_space}
            model = self._model(start, self.labelled, spaces)
            samplers = {TARGET: self.sampler(model, TARGET, self.labelled, config)}
            dev: Sequence[tuple[str, Sequence[Sentence]]] = [(TARGET, self.target.splits.get("dev", ()))]
        else:
            spaces = {keys[c.name]: self.source_space(c) for c in self.setup.sources}
            model = self._model(start, [s for c in self.setup.sources for s in c.train], spaces)
            samplers, dev = self.source_samplers(model, config), self.source_dev()
        return MixedStage("train", model, config, samplers, self.config.seed, dev)

    def _model(
        self, start: TaggingModel | None, sentences: Sequence[Sentence], spaces: Mapping[str, LabelSpace]
    ) -> TaggingModel:
        if start is None or not isinstance(start.encoder, RecurrentEncoder):
            raise SetupError("there is no language model to start from", place="--from", expected="a model of 'bilm'")
        seed_torch(self.config.seed, "encoder")
        plain = RecurrentEncoder.new(self.config.encoder, Counter(t for s in sentences for t in s.tokens))
        seed_torch(self.config.seed, "features")
        encoder = LMFeatureEncoder.over(plain, start.encoder)
        heads = {key: self.new_head(space, encoder.size, key) for key, space in spaces.items()}
        return TaggingModel(encoder, heads).to(start.device)

    def finish(self, model: TaggingModel) -> TaggingModel:
        ((key, _),) = model.named_heads()
        return model.deployable(key)
