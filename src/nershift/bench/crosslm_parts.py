"""How CrossLM's settings were chosen: rate, weight of the language models, start of the domain vectors, by dev F1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from nershift.bench.cells import Cell
from nershift.bench.crosslm import BIOMEDICAL, RAW, SOURCE, SUPERVISED, UNSUPERVISED
from nershift.bench.tables import Table
from nershift.config import merge

RATES = (1e-3, 3e-3)
WEIGHTS = (0.02, 0.1, 0.5)
SPREADS = (0.1, 1.0)
_LONGER = {"train": {"max_steps": 4000}}


def _choices(seeds: Sequence[int]) -> list[Cell]:
    made = []
    for rate, weight, spread in product(RATES, WEIGHTS, SPREADS):
        over = merge(
            _LONGER, {"train": {"lr": rate}, "options": {"lm_weight": weight, "domain_spread": spread}}
        )
        row = f"rate {rate:g}, λ_LM = {weight:g}, spread {spread:g}"
        for target in (*BIOMEDICAL, "cbs_scitech"):
            raw = RAW if target == "cbs_scitech" else ()
            chosen = merge((UNSUPERVISED if raw else SUPERVISED)["crosslm"][1], over)
            made += [
                Cell("crosslm-choices", "crosslm", target, SOURCE, s, chosen, row=row, raw=raw) for s in seeds
            ]
    for name, target in product(("in_domain", "finetune"), BIOMEDICAL):
        method, config = SUPERVISED[name]
        sources = () if name == "in_domain" else SOURCE
        made += [
            Cell("crosslm-choices", method, target, sources, s, merge(config, _LONGER), row=name)
            for s in seeds
        ]
    return made


def _dev(metrics: Mapping[str, Any], part: str) -> float:
    return float(metrics["phases"]["train"]["dev_f1"])


TABLES = [
    Table(
        "crosslm-choices",
        "CrossLM: what was tried, F1 on dev, 4,000 steps",
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
