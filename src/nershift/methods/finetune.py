"""Train on the sources, then continue on the target: the baseline for every transfer method."""

from __future__ import annotations

from nershift.methods.base import Method, register
from nershift.methods.presets import TWO_STAGE_PRESETS
from nershift.model import TaggingModel
from nershift.training.stage import TrainingStage


@register("finetune")
class FineTune(Method):
    summary = "source domains first (one head per label space), then the target"
    paper = "MetaNER §5.1.1 (FineTuning)"
    presets = TWO_STAGE_PRESETS
    min_sources = 1

    def pretrain(self) -> TrainingStage:
        return self.source_stage()

    def train(self, start: TaggingModel | None) -> TrainingStage:
        return self.target_stage(start)
