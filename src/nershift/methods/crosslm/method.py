"""CrossLM: language models of both domains as the bridge, by BiLSTM weights generated for each domain and task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import nn

from nershift.config import merge
from nershift.data.raw import Joined
from nershift.data.spans import Sentence
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.errors import ConfigError, SetupError
from nershift.methods.base import TARGET, labels_of, register
from nershift.methods.crosslm.generated import LSTMGenerator
from nershift.methods.crosslm.sampled_softmax import SampledSoftmax
from nershift.methods.crosslm.stage import LM, NER, CrossLMStage, Task, settle
from nershift.methods.presets import CROSSLM
from nershift.methods.texts import TextMethod, domain_name
from nershift.model import TaggingModel
from nershift.text.counts import OutputWords
from nershift.training.raw_sampler import RawBatchSampler
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import seed_torch
from nershift.training.stage import TrainingStage


@dataclass(frozen=True)
class CrossLMOptions:
    # full: weights by domain and task. co-lm: the target's two tasks alone, weights by task. co-ner: NER alone,
    # weights by domain. mix-data: as full, but every domain's language model reads the text of all. shared: one
    # set of weights for everything, the naive multi-task baseline.
    variant: Literal["full", "co-lm", "co-ner", "mix-data", "shared"] = "full"
    size: int = 8  # U and V: of domain and task vectors
    # How far apart domain and task vectors begin (1: drawn independently). The paper does not say; near domains
    # let (target, NER) begin as (source, NER) and learn how the two differ from the language models.
    domain_spread: float = 0.1
    task_spread: float = 0.5
    source_weight: float = 1.0  # λ_d of eq. 9
    target_weight: float = 1.0
    lm_weight: float = 1.0  # λ_t of eq. 9
    vocabulary: int = 50_000  # words to predict, and words of raw text that get trained vectors
    min_count: int = 1  # of a word in some text, to be among them
    negatives: int = 50
    correct: bool = True  # see nn.sampled_softmax
    lm_batch_size: int = 0  # sentences of a language modelling batch; 0: train.batch_size


_PRESETS = {
    "paper": CROSSLM,
    # What the released code begins with: domain and task vectors that have nothing in common.
    "released-code": merge(CROSSLM, {"options": {"domain_spread": 1.0, "task_spread": 1.0}}),
}


@register("crosslm")
class CrossLM(TextMethod):
    """Up to four sources of data, each optional: NER and raw text of the sources, NER and raw text of the target.

    A domain without raw text models the language of its labelled sentences. Without target labels the target is
    decoded with the weights of (target, NER), which no label has trained, and the head of the sources.
    """

    summary = "language models of both domains as the bridge; with --shots 0, no target labels at all"
    paper = "CrossLM §3 (Algorithm 1)"
    can_do_without = True
    presets = _PRESETS
    Options = CrossLMOptions

    def check(self) -> None:
        super().check()
        options, shape = self.options, self.config.encoder
        if shape.kind != "recurrent" or (shape.recurrent.cell, shape.recurrent.layers) != ("lstm", 1):
            found = (
                shape.kind if shape.kind != "recurrent" else f"{shape.recurrent.layers}-layer {shape.recurrent.cell}"
            )
            raise ConfigError(
                f"method 'crosslm' was given a {found} encoder",
                place="encoder",
                expected="one bidirectional LSTM layer (in a second one, each direction would see the other's words)",
                fix="--set encoder.recurrent.cell=lstm --set encoder.recurrent.layers=1",
            )
        for name in ("domain_spread", "task_spread"):
            if not 0 <= getattr(options, name) <= 1:
                raise ConfigError(f"found {getattr(options, name)}", place=f"options.{name}", expected="from 0 to 1")
        texts = self.texts()  # also refuses raw text of unknown domains
        if self.labelled:
            return
        if options.variant in ("co-lm", "co-ner"):
            raise SetupError(
                f"variant '{options.variant}' was given no labelled target sentences",
                place="--target",
                expected="a train split",
                fix="use variant full (or shared), which can do without",
            )
        self.check_source_head()
        if TARGET not in texts:
            raise SetupError(
                "without target labels, the target is known by its raw text alone, and none was given",
                place="--raw",
                expected="--raw target=FILE",
                fix="give unlabelled text of the target's domain",
            )

    @property
    def uses_sources(self) -> bool:
        return bool(self.options.variant != "co-lm")

    # -- data --------------------------------------------------------------------------------------------

    def labels(self) -> dict[str, Sequence[Sentence]]:
        """Labelled sentences by domain."""
        found: dict[str, Sequence[Sentence]] = {
            domain_name(c): labels_of(c) for c in self.setup.sources if self.options.variant != "co-lm"
        }
        if self.labelled:
            found[TARGET] = self.labelled
        return found

    def texts(self) -> dict[str, Sequence[Sentence]]:
        found = super().texts()
        if self.options.variant == "co-ner":
            return {}
        if self.options.variant == "co-lm":
            return {domain: text for domain, text in found.items() if domain == TARGET}
        if self.options.variant == "mix-data":
            return dict.fromkeys(found, Joined(list(found.values())))
        return found

    # -- training ----------------------------------------------------------------------------------------

    def train(self, start: TaggingModel | None) -> TrainingStage:
        config, labels, texts = self.config.train, self.labels(), self.texts()
        vocabulary = self._vocabulary(texts)
        model = self._model(labels, texts, vocabulary)
        names = self.source_keys()
        keys = {domain_name(c): names[c.name] for c in self.setup.sources} | {TARGET: TARGET}
        samplers, tasks = dict[str, BatchSampler](), list[Task]()
        for domain in dict.fromkeys([*labels, *texts]):
            share = self.options.target_weight if domain == TARGET else self.options.source_weight
            if domain in labels:
                name = f"{domain} NER"
                samplers[name] = self.sampler(model, keys[domain], labels[domain], config)
                tasks.append(Task(name, domain, NER, share))
            if domain in texts and vocabulary is not None:
                name, size = f"{domain} LM", self.options.lm_batch_size or config.batch_size
                samplers[name] = RawBatchSampler(model, name, texts[domain], size, self.config.seed, vocabulary)
                tasks.append(Task(name, domain, LM, share * self.options.lm_weight))
        if self.labelled:
            selection = [(TARGET, TARGET, self.target.splits.get("dev", ()))]
        else:
            selection = [(domain_name(c), keys[domain_name(c)], c.splits.get("dev", ())) for c in self.setup.sources]
        return CrossLMStage(model, config, samplers, self.config.seed, tasks, selection)

    def _vocabulary(self, texts: Mapping[str, Sequence[Sentence]]) -> OutputWords | None:
        if not texts:
            return None
        distinct = {id(text): text for text in texts.values()}  # mixed text is the same in every domain
        return OutputWords.of(
            {str(key): text for key, text in distinct.items()},
            self.options.vocabulary,
            self.options.min_count,
        )

    def _model(
        self,
        labels: Mapping[str, Sequence[Sentence]],
        texts: Mapping[str, Sequence[Sentence]],
        vocabulary: OutputWords | None,
    ) -> TaggingModel:
        options, keys = self.options, self.source_keys()
        spaces = {keys[c.name]: self.source_space(c) for c in self.setup.sources if domain_name(c) in labels}
        if self.labelled:
            spaces[TARGET] = self.target_space
        words = [Sentence.of(vocabulary.words)] if vocabulary is not None else []
        model = self.new_model([*(s for part in labels.values() for s in part), *words], spaces)
        encoder = model.encoder
        assert isinstance(encoder, RecurrentEncoder)
        assert isinstance(encoder.recurrent, nn.LSTM)
        encoder.recurrent.requires_grad_(False)
        axes = {"domain": list(dict.fromkeys([*labels, *texts, TARGET])), "task": [NER, LM]}
        unused = {"co-lm": ("domain",), "co-ner": ("task",), "shared": ("domain", "task")}
        for axis in unused.get(options.variant, ()):
            del axes[axis]
        seed_torch(self.config.seed, "generator")
        spread = {"domain": options.domain_spread, "task": options.task_spread}
        model.extras["generator"] = LSTMGenerator(encoder.recurrent, axes, options.size, spread)
        if vocabulary is not None:
            model.extras["lm"] = SampledSoftmax(
                encoder.recurrent.hidden_size, vocabulary.frequencies, options.negatives, options.correct
            )
        return model

    def finish(self, model: TaggingModel) -> TaggingModel:
        """A plain BiLSTM-CRF with the weights of (target, NER)."""
        settle(model, TARGET)
        model.encoder.get_submodule("recurrent").requires_grad_(True)
        key = TARGET if self.labelled else next(iter(self.source_keys().values()))
        return TaggingModel(model.encoder, {TARGET: model.head(key)}).to(model.device)
