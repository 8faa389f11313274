"""The methods of MetaNER: meta-training on the sources (Algorithm 1), then fine-tuning on the target (Algorithm 2)."""

from __future__ import annotations

from nershift.errors import ConfigError
from nershift.methods.adversary import AdversarialStage, add_discriminator
from nershift.methods.base import Method, register
from nershift.methods.metaner.step import Iteration, MetaNEROptions, MetaStage
from nershift.methods.presets import PRESETS
from nershift.methods.source_only import ZeroShot
from nershift.model import TaggingModel
from nershift.training.stage import TrainingStage


class MetaTraining(Method):
    """Algorithm 1. Sources with the same types share one head (homogeneous); otherwise each has its own."""

    presets = PRESETS
    Options = MetaNEROptions
    min_sources = 2

    def check(self) -> None:
        super().check()
        if self.options.order == "second-fd" and self.config.pretrain.precision != "fp32":
            raise ConfigError(
                "bf16 is too coarse for differences of gradients",
                place="options.order=second-fd",
                expected="pretrain.precision=fp32",
                fix="--set pretrain.precision=fp32, or --set options.order=first",
            )

    def pretrain(self) -> TrainingStage:
        options, config, seed = self.options, self.config.pretrain, self.config.seed
        model = self.source_model()
        samplers = self.source_samplers(model, config)
        discriminator = add_discriminator(model, len(samplers), options.hidden, seed) if options.adversary else None
        common = ("pretrain", model, config, samplers, seed, self.source_dev())
        if not options.meta:
            return AdversarialStage(*common, discriminator=discriminator, weight=options.adversary_weight)
        return MetaStage(*common, options=options, discriminator=discriminator, iteration=iteration_of(options.order))


def iteration_of(order: str) -> type[Iteration]:
    if order == "first":
        return Iteration
    from nershift.methods.metaner import second_order

    return second_order.Exact if order == "second" else second_order.FiniteDifferences


@register("metaner")
class MetaNER(MetaTraining):
    summary = "meta-learning over source domains with a domain adversary, then the target with a new head"
    paper = "MetaNER §4 (Algorithms 1 and 2)"

    def train(self, start: TaggingModel | None) -> TrainingStage | None:
        """Algorithm 2."""
        if start is not None and self.options.new_head:
            start = TaggingModel(start.encoder, {})
        return self.target_stage(start)


@register("metaner-zero")
class MetaNERZero(MetaTraining, ZeroShot):
    summary = "metaner without the target: the head of its sources is used as it is (no target labels)"
    paper = "MetaNER §5.1.1 (MetaNER-Zero)"
