"""Sources and target merged into one training set."""

from __future__ import annotations

from nershift.data.labels import LabelSpace
from nershift.methods.base import TARGET, Method, register
from nershift.methods.presets import JOINT_BY_ENCODER, JOINT_PRESETS
from nershift.model import TaggingModel
from nershift.training.stage import TrainingStage


@register("aggregate")
class Aggregate(Method):
    """The tagger predicts the target's types alone, where these are known."""

    summary = "one training set of all sources and the target, one head for the union of their types"
    paper = "MetaNER §5.1.1 (AGG)"
    can_do_without = True
    pools_sources = True
    presets = JOINT_PRESETS
    by_encoder = JOINT_BY_ENCODER
    min_sources = 1

    def train(self, start: TaggingModel | None) -> TrainingStage:
        sources = self.setup.sources
        types = {*self.target_space.types, *(t for c in sources for t in c.types)}
        pooled = [*self.target.train, *(s for c in sources for s in c.train)]
        model = self.new_model(pooled, {TARGET: LabelSpace.of(types, self.config.head.scheme)})
        sampler = self.sampler(model, TARGET, pooled, self.config.train)
        if self.target.train:
            self.restrict(model.head(TARGET))
        selected_on = [self.target] if self.target.train else sources
        dev = [(TARGET, c.splits.get("dev", ())) for c in selected_on]
        return TrainingStage("train", model, self.config.train, {TARGET: sampler}, self.config.seed, dev)

    def finish(self, model: TaggingModel) -> TaggingModel:
        self.restrict(model.head(TARGET))  # without target labels: only now, since the sources' dev splits selected
        return model
