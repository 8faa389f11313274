"""Train on the sources, then go on with the target: the baseline every transfer method is measured against."""

from __future__ import annotations

from nershift.methods.base import Method, register
from nershift.methods.presets import PRESETS
from nershift.model import TaggingModel
from nershift.training.stage import TrainingStage


@register("finetune")
class FineTune(Method):
    summary = "source domains first (a head for each label space), then the target"
    paper = "MetaNER §5.1.1 (FineTuning)"
    presets = PRESETS
    min_sources = 1

    def pretrain(self) -> TrainingStage:
        return self.source_stage()

    def train(self, start: TaggingModel | None) -> TrainingStage:
        return self.target_stage(start)
