"""DANN: train on the sources while an adversary stops the encoder from telling domains, the target's included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nershift.config import setting
from nershift.data.apart import Without, without
from nershift.data.raw import Joined, RawText
from nershift.data.spans import Sentence
from nershift.errors import SetupError
from nershift.methods.adversary import AdversarialStage, add_discriminator
from nershift.methods.base import TARGET, Method, register
from nershift.methods.presets import TWO_STAGE_PRESETS
from nershift.methods.texts import training_text
from nershift.model import TaggingModel
from nershift.text.counts import OutputWords
from nershift.training.raw_sampler import RawBatchSampler
from nershift.training.sampler import BatchSampler
from nershift.training.stage import TrainingStage


@dataclass(frozen=True)
class DannOptions:
    adversary_weight: float = setting(0.8, "Weight λ of the reversed gradient, as in MetaNER.", was="weight", low=0)
    hidden: int = setting(100, "Hidden units of the discriminator.", low=1)
    vocabulary: int = setting(50_000, "Most frequent words of a raw text file to give vectors.", low=0)


@register("dann")
class Dann(Method):
    """The target's unlabelled text is the raw text named ``target``, if there is any, and its train split.

    Without target labels, the head of the sources tags the target.
    """

    summary = "sources with a domain adversary that also reads target text, then the target's labels"
    paper = "MetaNER §5.1.1 (DANN)"
    can_do_without = True
    presets = TWO_STAGE_PRESETS
    Options = DannOptions
    min_sources = 1

    def check(self) -> None:
        super().check()
        if self.setup.target is None or self.setup.pretrained or self.target.splits.get("train"):
            return
        if not self.homogeneous:
            raise SetupError(
                "without target labels the head of the sources must tag the target, but the sources differ in types",
                place="--source",
                expected="sources with one set of entity types",
                fix="rename or drop types with a label map, or label some target sentences",
            )
        if not self._unlabelled():
            raise SetupError("there is no text of the target to read", place="--raw", expected="--raw target=FILE")

    def pretrain(self) -> TrainingStage | None:
        if self.setup.target is None:
            return None  # the adversary needs target text
        config, sources, seed = self.config.pretrain, self.setup.sources, self.config.seed
        keys, unlabelled = self.source_keys(), self._unlabelled()
        spaces = {keys[c.name]: self.source_space(c) for c in sources}
        streamed = self.config.encoder.kind == "recurrent" and isinstance(unlabelled, Joined)
        known: Sequence[Sentence] = unlabelled
        if streamed:
            words = OutputWords.of({TARGET: unlabelled}, self.options.vocabulary).words
            known = [Sentence.of(words)]
        model = self.new_model([*(s for c in sources for s in c.train), *known], spaces)
        samplers = {f"source {name}": sampler for name, sampler in self.source_samplers(model, config).items()}
        samplers[TARGET] = (
            RawBatchSampler(model, TARGET, unlabelled, config.batch_size, seed)
            if streamed
            else BatchSampler(model, TARGET, unlabelled, config.batch_size, seed, labelled=False)
        )
        return AdversarialStage(
            "pretrain",
            model,
            config,
            samplers,
            seed,
            self.source_dev(),
            discriminator=add_discriminator(model, len(samplers), self.options.hidden, seed),
            weight=self.options.adversary_weight,
        )

    def _unlabelled(self) -> Sequence[Sentence]:
        """The target's text without labels; a raw text file is not read into memory."""
        raw, own = self.setup.raw, without(self.target.splits.get("train", ()), self.setup.scored)
        text = raw.get(TARGET) or raw.get(self.target.name) or ()
        if isinstance(text, (RawText, Without)):
            return Joined([text, [s.with_spans(()) for s in own]])
        return [s.with_spans(()) for s in (*text, *own)]

    def run_notes(self, model: TaggingModel) -> list[str]:
        own = without(self.target.splits.get("train", ()), self.setup.scored)
        notes = [training_text(len(own.removed))] if isinstance(own, Without) else []
        return [*super().run_notes(model), *notes]

    def train(self, start: TaggingModel | None) -> TrainingStage | None:
        return self.target_stage(start) if self.target.splits.get("train") else None

    def finish(self, model: TaggingModel) -> TaggingModel:
        keys = [key for key, _ in model.named_heads()]
        return model.deployable(TARGET if TARGET in keys else keys[0])
