"""CrossLM: language models of both domains bridge them, by BiLSTM weights generated for each domain and task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nershift.config import merge, setting
from nershift.data.raw import Joined
from nershift.data.spans import Sentence
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.errors import ConfigError, SetupError
from nershift.methods.base import TARGET, labels_of, register
from nershift.methods.crosslm.generated import LSTMGenerator
from nershift.methods.crosslm.model import LM, NER, CrossLMModel
from nershift.methods.crosslm.sampled_softmax import SampledSoftmax
from nershift.methods.crosslm.stage import CrossLMStage, Task
from nershift.methods.presets import CROSSLM, CROSSLM_DEFAULT
from nershift.methods.texts import TextMethod, domain_name
from nershift.model import TaggingModel
from nershift.text.counts import OutputWords
from nershift.training.raw_sampler import RawBatchSampler
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import seed_torch
from nershift.training.stage import TrainingStage


@dataclass(frozen=True)
class CrossLMOptions:
    variant: Literal["full", "co-lm", "co-ner", "mix-data", "shared"] = setting(
        "full",
        "full: weights by domain and task. co-lm: the target's two tasks, weights by task. co-ner: NER alone, weights "
        "by domain. mix-data: as full, but every language model reads all text. shared: one set of weights.",
    )
    embedding_size: int = setting(8, "U and V of eq. 2: size of the domain and task embeddings.", was="size", low=1)
    # The paper does not say how embeddings start. Near ones let (target, NER) start as (source, NER), and learn from
    # the language models how the two differ.
    domain_spread: float = setting(0.1, "How far apart domain embeddings start; 1: independent.", low=0, high=1)
    task_spread: float = setting(0.5, "How far apart task embeddings start; 1: independent.", low=0, high=1)
    source_weight: float = setting(1.0, "λ_d of eq. 9 for the sources.", low=0)
    target_weight: float = setting(1.0, "λ_d of eq. 9 for the target.", low=0)
    lm_weight: float = setting(1.0, "λ_t of eq. 9: weight of language modelling beside NER.", low=0)
    vocabulary: int = setting(50_000, "Words to predict, and words of raw text with trained vectors.", low=1)
    min_count: int = setting(1, "Least count of such a word in some text.", low=0)
    negatives: int = setting(50, "Negative samples per step (N_x of eq. 6).", low=1)
    subtract_log_q: bool = setting(
        True, "Subtract the log of a word's chance to be drawn from its score; eqs. 5-6 do not.", was="correct"
    )
    lm_batch_size: int = setting(0, "Sentences per batch of raw text; 0: train.batch_size.", low=0)


_PRESETS = {
    "default": CROSSLM_DEFAULT,
    "paper": CROSSLM,
    # The released code starts from independent domain and task embeddings.
    "released-code": merge(CROSSLM, {"options": {"domain_spread": 1.0, "task_spread": 1.0}}),
}
_UNUSED_AXES = {"co-lm": ("domain",), "co-ner": ("task",), "shared": ("domain", "task")}


@register("crosslm")
class CrossLM(TextMethod):
    """Four kinds of data, each optional: labels and raw text of the sources, labels and raw text of the target.

    The language model of a domain without raw text reads its labelled sentences. Without target labels, the target
    is decoded with the weights of (target, NER), which no label has trained, and the head of the sources.
    """

    summary = "language models of both domains as the bridge; with --shots 0, no target labels at all"
    paper = "CrossLM §3 (Algorithm 1)"
    can_do_without = True
    presets = _PRESETS
    Options = CrossLMOptions
    options: CrossLMOptions

    def check(self) -> None:
        super().check()
        encoder = self.config.encoder
        cell, layers = encoder.recurrent.cell, encoder.recurrent.layers
        if encoder.kind != "recurrent" or (cell, layers) != ("lstm", 1):
            found = encoder.kind if encoder.kind != "recurrent" else f"{layers}-layer {cell}"
            raise ConfigError(
                f"method 'crosslm' was given a {found} encoder",
                place="encoder",
                expected="one bidirectional LSTM layer (in a second one, each direction would see the other's words)",
                fix="--set encoder.recurrent.cell=lstm --set encoder.recurrent.layers=1",
            )
        texts = self.texts()  # also refuses raw text of unknown domains
        if self.labelled:
            return
        if self.options.variant in ("co-lm", "co-ner"):
            raise SetupError(
                f"variant '{self.options.variant}' was given no labelled target sentences",
                place="--target",
                expected="a train split",
                fix="use variant full (or shared), which can do without",
            )
        self.check_source_head()
        if TARGET not in texts:
            raise SetupError(
                "without target labels, the target is known by its raw text alone, and there is none",
                place="--raw",
                expected="--raw target=FILE",
                fix="give unlabelled text of the target's domain",
            )

    @property
    def uses_sources(self) -> bool:
        return self.options.variant != "co-lm"

    # -- data --------------------------------------------------------------------------------------------

    def labels(self) -> dict[str, Sequence[Sentence]]:
        """Labelled sentences by domain."""
        labels: dict[str, Sequence[Sentence]] = {
            domain_name(c): labels_of(c) for c in self.setup.sources if self.uses_sources
        }
        return labels | ({TARGET: self.labelled} if self.labelled else {})

    def texts(self) -> dict[str, Sequence[Sentence]]:
        texts = super().texts()
        if self.options.variant == "co-ner":
            return {}
        if self.options.variant == "co-lm":
            return {domain: text for domain, text in texts.items() if domain == TARGET}
        if self.options.variant == "mix-data":
            return dict.fromkeys(texts, Joined(list(texts.values())))
        return texts

    # -- training ----------------------------------------------------------------------------------------

    def train(self, start: TaggingModel | None) -> TrainingStage:
        config, labels, texts = self.config.train, self.labels(), self.texts()
        vocabulary = self._vocabulary(texts)
        model = self._model(labels, texts, vocabulary)
        names = self.source_keys()
        keys = {domain_name(c): names[c.name] for c in self.setup.sources} | {TARGET: TARGET}
        samplers, tasks = dict[str, BatchSampler](), list[Task]()
        for domain in dict.fromkeys([*labels, *texts]):
            weight = self.options.target_weight if domain == TARGET else self.options.source_weight
            if domain in labels:
                name = f"{domain} NER"
                samplers[name] = self.sampler(model, keys[domain], labels[domain], config)
                tasks.append(Task(name, domain, NER, weight))
            if domain in texts and vocabulary is not None:
                name, size = f"{domain} LM", self.options.lm_batch_size or config.batch_size
                samplers[name] = RawBatchSampler(model, name, texts[domain], size, self.config.seed, vocabulary)
                tasks.append(Task(name, domain, LM, weight * self.options.lm_weight))
        if self.labelled:
            selection = [(TARGET, TARGET, self.target.splits.get("dev", ()))]
        else:
            selection = [(domain_name(c), keys[domain_name(c)], c.splits.get("dev", ())) for c in self.setup.sources]
        return CrossLMStage(model, config, samplers, self.config.seed, tasks, selection)

    def _vocabulary(self, texts: Mapping[str, Sequence[Sentence]]) -> OutputWords | None:
        if not texts:
            return None
        distinct = {id(text): text for text in texts.values()}  # mixed text is the same in every domain
        counted = {str(key): text for key, text in distinct.items()}
        return OutputWords.of(counted, self.options.vocabulary, self.options.min_count)

    def _model(
        self,
        labels: Mapping[str, Sequence[Sentence]],
        texts: Mapping[str, Sequence[Sentence]],
        vocabulary: OutputWords | None,
    ) -> CrossLMModel:
        options, keys, seed = self.options, self.source_keys(), self.config.seed
        words = Counter(token for part in labels.values() for s in part for token in s.tokens)
        words.update(vocabulary.words if vocabulary is not None else ())
        seed_torch(seed, "encoder")
        encoder = RecurrentEncoder.new(self.config.encoder, words)
        spaces = {keys[c.name]: self.source_space(c) for c in self.setup.sources if domain_name(c) in labels}
        if self.labelled:
            spaces[TARGET] = self.target_space
        heads = {key: self.new_head(space, encoder.size, key) for key, space in spaces.items()}
        axes = {"domain": list(dict.fromkeys([*labels, *texts, TARGET])), "task": [NER, LM]}
        for axis in _UNUSED_AXES.get(options.variant, ()):
            del axes[axis]
        seed_torch(seed, "generator")
        spread = {"domain": options.domain_spread, "task": options.task_spread}
        generator = LSTMGenerator(encoder.recurrent, axes, options.embedding_size, spread)
        lm = None
        if vocabulary is not None:
            size = encoder.recurrent.hidden_size
            lm = SampledSoftmax(size, vocabulary.frequencies, options.negatives, options.subtract_log_q)
        return CrossLMModel(encoder, heads, generator, lm)

    def finish(self, model: TaggingModel) -> TaggingModel:
        return model.deployable(TARGET if self.labelled else next(iter(self.source_keys().values())))
