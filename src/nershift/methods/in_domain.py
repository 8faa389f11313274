"""Train on the target's own labels: the bound that transfer has to beat."""

from __future__ import annotations

from nershift.config import merge
from nershift.methods.base import Method
from nershift.methods.settings import CROSSLM, PRESETS, SINGLE_TASK
from nershift.nn.model import TaggingModel
from nershift.train.phase import Phase

_PRESETS = {**PRESETS, "crosslm": merge(CROSSLM, {"train": SINGLE_TASK})}


class InDomain(Method):
    name = "in_domain"
    summary = "target labels only"
    paper = "MetaNER §5.1.1 (In-Domain)"
    presets = _PRESETS

    @property
    def uses_sources(self) -> bool:
        return False

    def train(self, start: TaggingModel | None) -> Phase:
        return self.target_phase(start)
