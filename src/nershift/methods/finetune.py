"""Train on the sources, then go on with the target: the baseline every transfer method is measured against."""

from __future__ import annotations

from nershift.methods.base import Method
from nershift.methods.settings import PRESETS
from nershift.nn.model import TaggingModel
from nershift.train.phase import Phase


class FineTune(Method):
    name = "finetune"
    summary = "source domains first (a decoder for each label space), then the target"
    paper = "MetaNER §5.1.1 (FineTuning)"
    presets = PRESETS
    min_sources = 1

    def pretrain(self) -> Phase:
        return self.source_phase()

    def train(self, start: TaggingModel | None) -> Phase:
        return self.target_phase(start)
