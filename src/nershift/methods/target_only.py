"""Train on the labelled target sentences only: what every transfer method has to beat."""

from __future__ import annotations

from nershift.config import merge
from nershift.methods.base import Method, register
from nershift.methods.presets import CROSSLM, PRESETS, SINGLE_TASK
from nershift.model import TaggingModel
from nershift.training.stage import TrainingStage

_PRESETS = {**PRESETS, "crosslm": merge(CROSSLM, {"train": SINGLE_TASK})}


@register("target_only", "in_domain")
class TargetOnly(Method):
    summary = "target labels only"
    paper = "MetaNER §5.1.1 (In-Domain)"
    presets = _PRESETS

    @property
    def uses_sources(self) -> bool:
        return False

    def train(self, start: TaggingModel | None) -> TrainingStage:
        return self.target_stage(start)
