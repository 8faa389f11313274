"""Multi-task learning: one encoder and a head per corpus, trained together."""

from __future__ import annotations

from nershift.methods.base import TARGET, Method, labels_of, register
from nershift.methods.presets import JOINT_BY_ENCODER, JOINT_PRESETS
from nershift.model import TaggingModel
from nershift.training.stage import TrainingStage, joint_epoch


@register("multitask")
class MultiTask(Method):
    """A step sums the losses of one batch of every corpus, so a small target is seen as often as the others."""

    summary = "sources and target together: a shared encoder, one head per corpus"
    paper = "MetaNER §5.1.1 (MultiTask)"
    presets = JOINT_PRESETS
    by_encoder = JOINT_BY_ENCODER
    min_sources = 1

    def train(self, start: TaggingModel | None) -> TrainingStage:
        config, sources = self.config.train, {f"source {c.name}": c for c in self.setup.sources}
        spaces = {TARGET: self.target_space} | {key: self.source_space(c) for key, c in sources.items()}
        text = [*self.target.train, *(s for c in self.setup.sources for s in c.train)]
        model = self.new_model(text, spaces)
        samplers = {TARGET: self.sampler(model, TARGET, self.target.train, config)}
        samplers |= {key: self.sampler(model, key, labels_of(c), config) for key, c in sources.items()}
        dev = [(TARGET, self.target.splits.get("dev", ()))]
        steps = joint_epoch(samplers)
        return TrainingStage("train", model, config, samplers, self.config.seed, dev, steps_per_epoch=steps)

    def finish(self, model: TaggingModel) -> TaggingModel:
        return model.deployable(TARGET)
