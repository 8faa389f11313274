"""The settings of direct transfer and of MetaCross. Defaults are the paper's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nershift.config import setting
from nershift.methods.metacross.inner_update import RuleKind, StepRule
from nershift.methods.metacross.sentence_vectors import Pooling

Batched = Literal["auto", "always", "never"]
Mask = Literal["word", "first"]
Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True)
class DirectOptions:
    labels: dict[str, str] = setting(dict, "New names for entity types of the sources, old: new; `O` drops a type.")


@dataclass(frozen=True)
class MetaCrossOptions(DirectOptions):
    """``mask_rate`` 0 and ``max_weight`` 0 are the ablations of the paper's Table 4."""

    neighbours: int = setting(2, "K: similar labelled sentences retrieved for each sentence.", low=1)
    vectors: Pooling = setting(
        "cls",
        "Sentence vectors for retrieval: `cls` (last state of the first position), `mean` of the last states, or "
        "`words` (mean input embedding).",
    )
    centre: bool = setting(False, "Subtract the mean sentence vector before comparing.")
    retriever: str = setting("", "Folder or hub name of another encoder for the sentence vectors; empty: the tagger's.")
    inner_steps: int = setting(2, "n: gradient steps of the inner update.", was="steps", low=0)
    rule: RuleKind = setting(
        "adam",
        "Optimiser of inner and adaptation steps, started afresh for each task: `adam` (the paper's text), `sgd` (its "
        "formula) or `released` (its code).",
    )
    inner_lr: float = setting(3e-5, "α: learning rate of the inner update.", was="inner_rate", low=0)
    inner_schedule: bool = setting(False, "Let α follow the learning-rate schedule of the meta-update.")
    adapt_lr: float = setting(1e-5, "γ: learning rate of the step for each test sentence.", was="adapt_rate", low=0)
    adapt_lrs: tuple[float, ...] = setting(
        (), "Choose γ among these by F1 on the sources' dev splits; empty: use `adapt_lr`.", was="adapt_rates", low=0
    )
    clip: float = setting(
        0.0, "Largest gradient norm of each tensor in inner and adaptation steps; 0: no clipping.", low=0
    )
    weight_decay: float = setting(
        0.0, "Weight decay in inner and adaptation steps; only with rule `released`.", was="decay", low=0
    )
    mask_rate: float = setting(
        0.2, "r: share of entity tokens that are masked in meta-training; 0: none.", low=0, high=1
    )
    mask: Mask = setting("word", "Mask all sub-words of a chosen token (`word`), or only its first one (`first`).")
    mask_support: bool = setting(True, "Mask supports as well as queries.")
    max_weight: float = setting(
        2.0, "λ of eq. 13: weight of a sentence's largest token loss; 0: mean loss only.", low=0
    )
    adapt: bool = setting(True, "Take a step for each sentence before tagging it.")
    adapt_precision: Precision = setting("fp32", "Precision of that step and of the tagging after it.")
    batched: Batched = setting(
        "auto", "Run the tasks of a meta-batch together: `auto` where it is faster. The gradient is the same."
    )
    memory: float = setting(4.0, "GiB that tasks run together may use, in training and in tagging.", low=0)

    def step_rule(self, rate: float) -> StepRule:
        return StepRule(self.rule, rate, self.clip, self.weight_decay)
