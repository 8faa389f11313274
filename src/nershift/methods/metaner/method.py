"""MetaNER: an adversary and simulated domain shift (meta-learning) make an encoder that adapts quickly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from nershift.config import setting
from nershift.errors import ConfigError
from nershift.methods.adversary import Discriminator
from nershift.methods.base import Method, register
from nershift.methods.dann import AdversarialStage, add_discriminator
from nershift.methods.metaner.iteration import InnerSettings, Order
from nershift.methods.metaner.maml import meta_gradients
from nershift.methods.metaner.sparse_embeddings import narrowed
from nershift.methods.presets import PRESETS
from nershift.methods.source_only import ZeroShot
from nershift.model import Batch, TaggingModel
from nershift.training.seeding import generator, seed_torch
from nershift.training.stage import Backward, TrainingStage


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
    new_head: bool = setting(
        False, was="new_decoder"
    )  # Algorithm 2 to the letter, even where a head of the sources would fit


class MetaStage(TrainingStage):
    """Algorithm 1: an iteration takes a batch of each source; the last one is the meta-validation task.

    Several processes take inner steps on their own shares of the batches; outer gradients are averaged.
    """

    def __init__(self, *args: Any, options: MetaNEROptions, teach_heads: bool, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.domains = {name: index for index, name in enumerate(self.samplers)}
        self.steps_per_epoch = -(-sum(sampler.per_epoch for sampler in self.samplers.values()) // len(self.samplers))
        self.settings = InnerSettings(
            rate=options.inner_rate,
            weight=options.weight,
            adversary=options.adversary,
            inner=options.inner,
            order=options.order,
            validation=options.validation_theta,
            update=options.update,
            teach_heads=teach_heads,
        )

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        """The random split of the domains: in the order drawn, all but the last are for meta-training."""
        names = list(self.samplers)
        generator(self.seed, self.name, "split", step).shuffle(names)
        return {name: self.samplers[name].batch(step, rank, world) for name in names}

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

    def head(self, task: int) -> list[nn.Parameter]:
        return list(self.model.head(self.batches[task].key).parameters())


@register("metaner")
class MetaNER(Method):
    """Sources with one label space share a head (homogeneous); else each has its own (heterogeneous).

    A head of its own sees the validation loss only when its domain is drawn for validation. It therefore
    also learns by its training loss whenever it is not, from the backward pass that the inner loop needs
    anyway.
    """

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

    def pretrain(self) -> TrainingStage:
        model, config, options = self.source_model(), self.config.pretrain, self.options
        samplers = self.source_samplers(model, config)
        if options.adversary:
            add_discriminator(model, len(samplers), options.hidden, self.config.seed)
        common = ("pretrain", model, config, samplers, self.config.seed, self.source_dev())
        if not options.meta:
            return AdversarialStage(*common, weight=options.weight)
        return MetaStage(*common, options=options, teach_heads=not self.homogeneous)

    def train(self, start: TaggingModel | None) -> TrainingStage | None:
        """Algorithm 2."""
        if start is not None and self.options.new_head:
            start = TaggingModel(start.encoder, {})
        return self.target_stage(start)


@register("metaner-zero")
class MetaNERZero(ZeroShot, MetaNER):
    summary = "metaner without the target: its sources' head is used as it is (no target labels)"
    paper = "MetaNER §5.1.1 (MetaNER-Zero)"
    min_sources = 2

    def train(self, start: TaggingModel | None) -> None:
        return None
