"""How CrossLM's settings were chosen: rate, weight of the language models, start of the domain vectors, by dev F1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.crosslm.tables import RAW, SOURCE, SUPERVISED, UNSUPERVISED, Rows
from experiments.table import Table, entry
from nershift.config import merge

PLACES: dict[str, tuple[Rows, tuple[tuple[str, str], ...]]] = {
    "bionlp13cg": (SUPERVISED, ()),
    "cbs_scitech": (UNSUPERVISED, RAW),
}
# One thing at a time, beside what the tables have.
CHOICES: dict[str, dict[str, Any]] = {
    "as in the tables": {},
    "rate 1e-3": {"train": {"lr": 1e-3}},
    "λ_LM = 0.02": {"options": {"lm_weight": 0.02}},
    "λ_LM = 0.5": {"options": {"lm_weight": 0.5}},
    "domain vectors further apart: 0.5": {"options": {"domain_spread": 0.5}},
    "domain vectors drawn independently: 1": {"options": {"domain_spread": 1.0}},
}


def _dev(metrics: Mapping[str, Any], part: str) -> float:
    return float(metrics["phases"]["train"]["dev_f1"])


TABLES = [
    Table(
        "crosslm-choices",
        "CrossLM: what was tried, F1 on dev",
        [
            entry("crosslm", target, SOURCE, merge(table["crosslm"][1], over), row=row, raw=raw)
            for row, over in CHOICES.items()
            for target, (table, raw) in PLACES.items()
        ],
        notes=(
            "Dev scores, by which settings are chosen; those of cbs_scitech, which has no labels to look at, are of "
            "the dev split of conll2003_en.",
        ),
        seeds=(1,),
        value=_dev,
    )
]
