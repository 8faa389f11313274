"""MetaCross: meta-learn on tasks of similar sentences, then adapt to every sentence before tagging it."""

from __future__ import annotations

import dataclasses

from nershift.config import merge
from nershift.data.spans import Sentence
from nershift.errors import ConfigError, SetupError
from nershift.evaluation.metrics import score
from nershift.methods.adapter import SentenceAdapter
from nershift.methods.base import register
from nershift.methods.metacross.adaptation import Adaptation
from nershift.methods.metacross.direct import PAPER, RELEASED, TokenMethod
from nershift.methods.metacross.options import MetaCrossOptions
from nershift.methods.metacross.sentence_vectors import SentenceVectors
from nershift.methods.metacross.stage import PseudoTaskStage
from nershift.methods.metacross.support import SupportIndex
from nershift.methods.metacross.task_sampler import TaskSampler
from nershift.methods.source_only import ZeroShot
from nershift.model import TaggingModel
from nershift.training.stage import TrainingStage

# Where the released code differs and is not simply wrong; README.md says where this preset keeps to the paper.
_RELEASED_OPTIONS = {
    "rule": "released",
    "clip": 1.0,
    "weight_decay": 0.01,
    "inner_schedule": True,
    "mask": "first",
    "mask_support": False,
}
# Inner and adaptation steps by the paper's formulas, with larger rates: at Adam's, SGD hardly moves the weights.
_SGD_OPTIONS = {"rule": "sgd", "clip": 1.0, "inner_lr": 1e-2, "adapt_lrs": [1e-3, 1e-2, 1e-1]}


class MetaTraining(TokenMethod):
    """Meta-training on pseudo tasks of the sources.

    It starts from the pre-trained encoder, as in the released code. The paper says "the pre-trained base model", which
    may mean that or `direct`.
    """

    presets = {  # noqa: RUF012 - as declared in Method
        "default": PAPER,
        "paper": PAPER,
        "released": merge(RELEASED, {"options": _RELEASED_OPTIONS}),
        "sgd": merge(PAPER, {"options": _SGD_OPTIONS}),
    }
    Options = MetaCrossOptions
    options: MetaCrossOptions
    _index: SupportIndex | None = None

    def check(self) -> None:
        super().check()
        options = self.options
        if options.weight_decay and options.rule != "released":
            raise ConfigError(
                f"rule '{options.rule}' has no weight decay",
                place="options.weight_decay",
                expected="0",
                fix="omit options.weight_decay",
            )
        frozen = self.config.encoder.transformer.freeze_embeddings
        if options.vectors == "words" and not options.retriever and not frozen:
            raise ConfigError(
                "sentence vectors from an embedding table that training changes",
                place="options.vectors=words",
                expected="a frozen table",
                fix="--set encoder.transformer.freeze_embeddings=true, or name an options.retriever",
            )

    def pretrain(self) -> TrainingStage:
        model, config, seed = self.source_model(), self.config.pretrain, self.config.seed
        sentences = self._source_sentences()
        sampler = TaskSampler(
            model, "shared", sentences, config.batch_size, seed, self.options, lambda: self.source_index(model)
        )
        return PseudoTaskStage(model, config, sampler, seed, self.source_dev(), self.options)

    def source_index(self, model: TaggingModel) -> SupportIndex:
        """The index of all source sentences. Its vectors are those of an encoder before training; made once."""
        if self._index is None:
            options = self.options
            name = options.retriever or self.config.encoder.transformer.name
            own = options.vectors == "words" and not options.retriever
            vectors = SentenceVectors.of_words(model) if own else SentenceVectors.load(name, options.vectors)
            self._index = SupportIndex.of(self._source_sentences(), options, vectors.to(model.device), own_table=own)
        return self._index

    def _source_sentences(self) -> list[Sentence]:
        return [s for c in self.setup.sources for s in c.train]


@register("metacross")
class MetaCross(MetaTraining, ZeroShot):
    """Algorithm 1: meta-training on the sources, then a step for every test sentence."""

    summary = "meta-learning on tasks of similar sentences, then a step for every test sentence (no target labels)"
    paper = "MetaCross (Algorithm 1)"

    def check(self) -> None:
        super().check()
        if self.options.adapt and self.options.adapt_lrs and not self.source_dev() and not self.setup.pretrained:
            raise SetupError(
                "there is no dev split to choose a rate on",
                place="options.adapt_lrs",
                expected="a source with a dev split",
                fix="hold out part of it (--hold-out 0.1), or set options.adapt_lr and adapt_lrs=[]",
            )

    def adapter(self, model: TaggingModel, kept: SentenceAdapter | None = None) -> SupportIndex | None:
        options = self.options
        if not options.adapt and self.setup.target is not None:
            return None
        if not isinstance(kept, SupportIndex):
            index = self.source_index(model)
            rate = self._best_rate(model, index) if options.adapt_lrs else options.adapt_lr
            index.options = dataclasses.replace(options, adapt_lr=rate)
            return index
        # The vectors were made with the options of then, and a rate was chosen when the sources were there.
        then = kept.options
        kept.options = dataclasses.replace(options, vectors=then.vectors, centre=then.centre)
        if options.adapt_lrs:
            step = {name: getattr(then, name) for name in ("rule", "adapt_lr", "clip", "weight_decay")}
            kept.options = dataclasses.replace(kept.options, **step)
        return kept

    def _best_rate(self, model: TaggingModel, index: SupportIndex) -> float:
        """The rate with the best F1 on the sources' dev splits; the smallest of equals."""
        dev = [s for _, rows in self.source_dev() for s in rows]
        ((key, _),) = model.named_heads()
        tasks = index.search(dev, model)[0].tolist()

        def f1(rate: float) -> float:
            options = dataclasses.replace(self.options, adapt_lr=rate)
            return score(dev, Adaptation(model, key, options).predict(dev, index.sentences, tasks)).f1

        return max(sorted(self.options.adapt_lrs), key=f1)


@register("metacross-few")
class MetaCrossFew(MetaTraining):
    """Fine-tuned on the target's labels as a whole; there is no step for each sentence."""

    summary = "metacross, then fine-tuned on the labelled target sentences"
    paper = "MetaCross, Discussion"

    def train(self, start: TaggingModel | None) -> TrainingStage:
        return self.target_stage(start)
