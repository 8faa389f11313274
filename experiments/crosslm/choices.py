"""How CrossLM's settings were chosen: rate, weight of the language models, start of the domain vectors, by dev F1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.cells import Cell
from experiments.crosslm.tables import RAW, SOURCE, SUPERVISED, UNSUPERVISED
from experiments.table import Table
from nershift.config import merge

PLACES: dict[str, tuple[tuple[str, str], ...]] = {"bionlp13cg": (), "cbs_scitech": RAW}
# One thing at a time, beside what the tables have.
CHOICES: dict[str, dict[str, Any]] = {
    "as in the tables": {},
    "rate 1e-3": {"train": {"lr": 1e-3}},
    "λ_LM = 0.02": {"options": {"lm_weight": 0.02}},
    "λ_LM = 0.5": {"options": {"lm_weight": 0.5}},
    "domain vectors further apart: 0.5": {"options": {"domain_spread": 0.5}},
    "domain vectors drawn independently: 1": {"options": {"domain_spread": 1.0}},
}


def _choices(seeds: Sequence[int]) -> list[Cell]:
    return [
        Cell(
            "crosslm-choices",
            "crosslm",
            target,
            SOURCE,
            s,
            merge((UNSUPERVISED if raw else SUPERVISED)["crosslm"][1], over),
            row=row,
            raw=raw,
        )
        for row, over in CHOICES.items()
        for target, raw in PLACES.items()
        for s in seeds
    ]


def _dev(metrics: Mapping[str, Any], part: str) -> float:
    return float(metrics["phases"]["train"]["dev_f1"])


TABLES = [
    Table(
        "crosslm-choices",
        "CrossLM: what was tried, F1 on dev",
        _choices,
        lambda c: (c.name, c.target),
        notes=(
            "Dev scores, by which settings are chosen; those of cbs_scitech, which has no labels to look at, are of "
            "the dev split of conll2003_en.",
        ),
        average=False,
        seeds=(1,),
        value=_dev,
    )
]
