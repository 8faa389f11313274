"""The methods of MetaNER: meta-training on the sources (Algorithm 1), then fine-tuning on the target (Algorithm 2)."""

from __future__ import annotations

from dataclasses import replace

from nershift.errors import ConfigError
from nershift.methods.adversary import AdversarialStage, add_discriminator
from nershift.methods.base import Method, register
from nershift.methods.metaner.episodes import EpisodeOptions, EpisodeStage
from nershift.methods.metaner.step import Iteration, MetaStage
from nershift.methods.presets import TWO_STAGE_PRESETS
from nershift.methods.source_only import ZeroShot
from nershift.model import TaggingModel
from nershift.training.stage import TrainingStage


class MetaTraining(Method):
    """Algorithm 1. Sources with the same types share one head (homogeneous); otherwise each has its own."""

    presets = TWO_STAGE_PRESETS
    Options = EpisodeOptions
    min_sources = 2

    def check(self) -> None:
        super().check()
        if self.options.episodes:
            self._check_episodes()
        if self.options.order == "second-fd" and self.config.pretrain.precision != "fp32":
            raise ConfigError(
                "bf16 is too coarse for differences of gradients",
                place="options.order=second-fd",
                expected="pretrain.precision=fp32",
                fix="--set pretrain.precision=fp32, or --set options.order=first",
            )

    def _check_episodes(self) -> None:
        options = self.options
        wrong = "options.meta=false" if not options.meta else f"options.order={options.order}"
        if not options.meta or options.order != "first":
            raise ConfigError(
                f"{wrong} is a variant of Algorithm 1, which episodes replace",
                place="options.episodes",
                expected="false",
                fix="omit one of the two",
            )
        if options.support_min > options.support_max:
            found = f"{options.support_min} is more than options.support_max={options.support_max}"
            raise ConfigError(found, place="options.support_min", expected="at most options.support_max")

    def pretrain(self) -> TrainingStage:
        options, config, seed = self.options, self.config.pretrain, self.config.seed
        model = self.source_model()
        samplers = self.source_samplers(model, config)
        common = ("pretrain", model, config, samplers, seed, self.source_dev())
        if options.episodes:
            if options.new_head or not self.config.head.from_source:
                options = replace(options, keep_rows=0.0)  # as the target's head
            return EpisodeStage(*common, options=options, inner=self.config.train, new_rows=self.config.head.new_rows)
        discriminator = add_discriminator(model, len(samplers), options.hidden, seed) if options.adversary else None
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
        """Algorithm 2. Learned rates stay in the target's model, for its optimiser."""
        rates = start.learned_rates if start is not None else None
        if start is not None and self.options.new_head:
            start = TaggingModel(start.encoder, {})
        stage = self.target_stage(start)
        if rates is not None:
            stage.model.extras["learned_rates"] = rates.requires_grad_(False)
        return stage


@register("metaner-zero")
class MetaNERZero(MetaTraining, ZeroShot):
    summary = "metaner without the target: the head of its sources is used as it is (no target labels)"
    paper = "MetaNER §5.1.1 (MetaNER-Zero)"
