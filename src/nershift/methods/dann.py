"""Domain-adversarial training: an encoder that tags the sources and hides where a sentence comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nershift.data.raw import Joined, RawText
from nershift.data.spans import Sentence
from nershift.errors import SetupError
from nershift.methods.adversary import Discriminator, reverse
from nershift.methods.base import TARGET, Method, register
from nershift.methods.presets import PRESETS
from nershift.model import Batch, TaggingModel
from nershift.text.counts import OutputWords
from nershift.training.raw_sampler import RawBatchSampler
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import seed_torch
from nershift.training.stage import Backward, TrainingStage


class AdversarialStage(TrainingStage):
    """One batch of every domain a step; ``L_tr - λ L_dis`` for the encoder, ``L_dis`` for the discriminator.

    Feeds are numbered as domains in their order; batches without tags teach the adversary alone.
    """

    recordable = True

    def __init__(self, *args: Any, weight: float, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.weight = weight
        self.domains = {name: number for number, name in enumerate(self.samplers)}
        self.steps_per_epoch = -(-sum(sampler.per_epoch for sampler in self.samplers.values()) // len(self.samplers))

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        tagging, domain = list[Tensor](), list[Tensor]()
        for name, batch in batches.items():
            states = self.model.states(batch)
            if batch.tags is not None:
                tagging.append(self.model.loss(batch, states))
            if "discriminator" in self.model.extras:
                hidden = reverse(states, self.weight)
                domain.append(self.model.extras["discriminator"].loss(hidden, batch.mask, self.domains[name]))  # type: ignore[operator]
        backward(torch.stack([*tagging, *domain]).sum())
        logged = {"loss": torch.stack(tagging).mean()}
        return logged | ({"domain_loss": torch.stack(domain).mean()} if domain else {})


def add_discriminator(model: TaggingModel, domains: int, hidden: int, seed: int) -> Discriminator:
    """Give the model an extra part that tells ``domains`` domains apart."""
    seed_torch(seed, "discriminator")
    made = Discriminator(model.encoder.size, domains, hidden)
    model.extras["discriminator"] = made
    return made


@dataclass(frozen=True)
class DannOptions:
    weight: float = 0.8  # λ of the reversed gradient, as in MetaNER
    hidden: int = 100  # hidden units of the discriminator
    vocabulary: int = 50_000  # words of raw text on disk that get vectors of their own


@register("dann")
class Dann(Method):
    """Unlabelled text of the target: raw text called ``target``, if given, and its train split.

    Without target labels, the head of the sources is used on the target.
    """

    summary = "sources with a domain adversary that reads target text as well, then the target's labels"
    paper = "MetaNER §5.1.1 (DANN)"
    can_do_without = True
    presets = PRESETS
    Options = DannOptions
    min_sources = 1

    def check(self) -> None:
        super().check()
        if self.setup.target is None or self.setup.pretrained or self.target.splits.get("train"):
            return
        if not self.homogeneous:
            raise SetupError(
                "without target labels the head of the sources has to serve, and each has its own types",
                place="--source",
                expected="sources with one set of entity types",
                fix="rename or drop types with a label map, or label some target sentences",
            )
        if not self._unlabelled():
            raise SetupError("there is no text of the target to read", place="--raw", expected="--raw target=FILE")

    def pretrain(self) -> TrainingStage | None:
        if self.setup.target is None:
            return None  # without target text there is nothing to be adversarial about
        config, sources, seed = self.config.pretrain, self.setup.sources, self.config.seed
        keys, unlabelled = self.source_keys(), self._unlabelled()
        spaces = {keys[c.name]: self.source_space(c) for c in sources}
        streamed = self.config.encoder.kind == "recurrent" and isinstance(unlabelled, Joined)
        known: Sequence[Sentence] = unlabelled
        if streamed:
            words = OutputWords.of({TARGET: unlabelled}, self.options.vocabulary).words
            known = [Sentence.of(words)]
        model = self.new_model([*(s for c in sources for s in c.train), *known], spaces)
        add_discriminator(model, len(sources) + 1, self.options.hidden, seed)
        samplers = {f"source {name}": sampler for name, sampler in self.source_samplers(model, config).items()}
        samplers[TARGET] = (
            RawBatchSampler(model, TARGET, unlabelled, config.batch_size, seed)
            if streamed
            else BatchSampler(model, TARGET, unlabelled, config.batch_size, seed, labelled=False)
        )
        return AdversarialStage(
            "pretrain", model, config, samplers, seed, self.source_dev(), weight=self.options.weight
        )

    def _unlabelled(self) -> Sequence[Sentence]:
        """A text on disk stays there."""
        raw, own = self.setup.raw, self.target.splits.get("train", ())
        given = raw.get(TARGET) or raw.get(self.target.name) or ()
        if isinstance(given, RawText):
            return Joined([given, [s.with_spans(()) for s in own]])
        return [s.with_spans(()) for s in (*given, *own)]

    def train(self, start: TaggingModel | None) -> TrainingStage | None:
        return self.target_stage(start) if self.target.splits.get("train") else None

    def finish(self, model: TaggingModel) -> TaggingModel:
        heads = dict(model.named_heads())
        head = heads.get(TARGET) or next(iter(heads.values()))
        return TaggingModel(model.encoder, {TARGET: head}).to(model.device)
