"""MetaNER: an adversary and simulated domain shift (meta-learning) make an encoder that adapts quickly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from nershift.errors import ConfigError
from nershift.methods.base import Method
from nershift.methods.d_shift import ZeroShot
from nershift.methods.dann import AdversarialPhase, add_discriminator
from nershift.methods.settings import PRESETS
from nershift.nn.adversary import Discriminator
from nershift.nn.inner.base import InnerSettings, Order
from nershift.nn.inner.gradients import meta_gradients
from nershift.nn.inner.narrow import narrowed
from nershift.nn.model import Batch, TaggingModel
from nershift.train.phase import Backward, Phase
from nershift.train.seeding import generator, seed_torch


@dataclass(frozen=True)
class MetaNEROptions:
    """Defaults are the full model of the paper; the switches are those of its ablation (Fig. 8)."""

    inner_rate: float = 1e-4  # α
    weight: float = 0.8  # λ
    hidden: int = 100  # hidden units of the discriminator
    order: Order = "first"  # second: exact, slow; second-fd: by differences of gradients
    inner: Literal["chained", "summed"] = "chained"  # a step for each meta-training task, or one for all
    adversary: bool = True
    meta: bool = True  # false: plain training on all sources, with the adversary
    validation_theta: Literal["both", "new"] = "both"  # new: θ(new) serves tagging and discriminator
    update: Literal["metaner", "maml"] = "metaner"  # maml: θ, too, follows the validation loss
    new_decoder: bool = False  # Algorithm 2 to the letter, even where a decoder of the sources would fit


class MetaPhase(Phase):
    """Algorithm 1: an iteration takes a batch of each source; the last one is the meta-validation task.

    Several processes take inner steps on their own shares of the batches; outer gradients are averaged.
    """

    def __init__(self, *args: Any, options: MetaNEROptions, teach_decoders: bool, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.domains = {name: index for index, name in enumerate(self.feeds)}
        self.steps_per_epoch = -(-sum(feed.per_epoch for feed in self.feeds.values()) // len(self.feeds))
        self.settings = InnerSettings(
            rate=options.inner_rate,
            weight=options.weight,
            adversary=options.adversary,
            inner=options.inner,
            order=options.order,
            validation=options.validation_theta,
            update=options.update,
            teach_decoders=teach_decoders,
        )

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        """The random split of the domains: in the order drawn, all but the last are for meta-training."""
        names = list(self.feeds)
        generator(self.seed, self.name, "split", step).shuffle(names)
        return {name: self.feeds[name].batch(step, rank, world) for name in names}

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        with narrowed(self.model.encoder, list(batches.values())) as narrow:
            tasks = DomainTasks(self.model, dict(zip(batches, narrow, strict=True)), self.domains)
            encoder = {n: p for n, p in self.model.encoder.named_parameters() if p.requires_grad}
            discriminator = list(self.model.extras.parameters())
            return meta_gradients(encoder, discriminator, self.settings, tasks, 1 / self.config.accumulate)


class DomainTasks:
    """Batches of domains as the tasks of one iteration; the last one validates."""

    def __init__(self, model: TaggingModel, batches: Mapping[str, Batch], domains: Mapping[str, int]) -> None:
        self.model, self.batches = model, list(batches.values())
        self.domains = [domains[name] for name in batches]
        self.training = len(self.batches) - 1
        self._seed = int(torch.randint(2**62, ()).item())

    def states(self, task: int, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        seed_torch(self._seed, task)  # the same dropout masks at every visit
        batch = self.batches[task]
        if weights is None:
            return self.model.states(batch)
        states: Tensor = functional_call(self.model.encoder, dict(weights), (), batch.inputs)
        return states

    def tagging(self, task: int, states: Tensor) -> Tensor:
        return self.model.loss(self.batches[task], states)

    def domain(self, task: int, states: Tensor) -> Tensor:
        discriminator = self.model.extras["discriminator"]
        assert isinstance(discriminator, Discriminator)
        return discriminator.loss(states, self.batches[task].mask, self.domains[task])

    def decoder(self, task: int) -> list[nn.Parameter]:
        return list(self.model.decoder(self.batches[task].key).parameters())


class MetaNER(Method):
    """Sources with one label space share a decoder (homogeneous); else each has its own (heterogeneous).

    A decoder of its own sees the validation loss only when its domain is drawn for validation. It therefore
    also learns by its training loss whenever it is not, from the backward pass that the inner loop needs
    anyway.
    """

    name = "metaner"
    summary = "meta-learning over source domains with a domain adversary, then the target with a new decoder"
    paper = "MetaNER §4 (Algorithms 1 and 2)"
    presets = PRESETS
    Options = MetaNEROptions
    min_sources = 2

    def check(self) -> None:
        super().check()
        if self.options.order == "second-fd" and self.config.pretrain.precision != "fp32":
            raise ConfigError(
                "differences of gradients drown in bf16",
                place="options.order=second-fd",
                expected="pretrain.precision=fp32",
                fix="--set pretrain.precision=fp32, or --set options.order=first",
            )

    def pretrain(self) -> Phase:
        model, config, options = self.source_model(), self.config.pretrain, self.options
        feeds = self.source_feeds(model, config)
        if options.adversary:
            add_discriminator(model, len(feeds), options.hidden, self.config.seed)
        common = ("pretrain", model, config, feeds, self.config.seed, self.source_dev())
        if not options.meta:
            return AdversarialPhase(*common, weight=options.weight)
        return MetaPhase(*common, options=options, teach_decoders=not self.homogeneous)

    def train(self, start: TaggingModel | None) -> Phase | None:
        """Algorithm 2."""
        if start is not None and self.options.new_decoder:
            start = TaggingModel(start.encoder, {})
        return self.target_phase(start)


class MetaNERZero(ZeroShot, MetaNER):
    name = "metaner-zero"
    summary = "metaner without the target: its sources' decoder is used as it is (no target labels)"
    paper = "MetaNER §5.1.1 (MetaNER-Zero)"
    min_sources = 2

    def train(self, start: TaggingModel | None) -> None:
        return None
