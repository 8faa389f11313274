"""CrossLM's Table 3 with one optimiser, rate and number of updates for every row."""

from __future__ import annotations

from typing import Any

from experiments.cells import Cell
from experiments.crosslm.tables import ALONE, BIO_NOTES, BIOMEDICAL, PUBLISHED_3, SOURCE, SUPERVISED
from experiments.table import Table, entry, on_dev
from nershift.config import merge

UPDATES = 3000  # in all
RATES = (3e-3, 1e-3)
_TWO_STAGES = ("finetune", "bilm")


def _stage(updates: int, **over: Any) -> dict[str, Any]:
    adam = {"optimizer": "adam", "lr": 1e-3, "schedule": "constant", "clip": 5.0, "weight_decay": 1e-8}
    return {**adam, "batch_size": 64, "updates": updates, "epochs": 0, "patience": 0, **over}


def _fair(row: str, target: str, rate: float) -> Cell:
    method, config = SUPERVISED[row]
    updates = UPDATES // 2 if row in _TWO_STAGES else UPDATES
    stage = _stage(updates, lr=rate)
    sources = () if row in ALONE else SOURCE
    over = {"pretrain": stage, "train": stage}
    return entry(method, target, sources, merge(config, over), row=row, joint=method != "finetune")


# What the tagger alone learns best with, as many updates each.
OPTIMISERS: dict[str, dict[str, Any]] = {
    "SGD 0.015 (the paper's)": {"optimizer": "sgd", "lr": 0.015, "clip": 0.0},
    "RMSprop 1e-3 (the paper's for one task)": {"optimizer": "rmsprop", "clip": 0.0},
    "Adam 1e-3": {},
    "Adam 3e-3": {"lr": 3e-3},
}


def _rate(row: str, target: str) -> Cell:
    stage = _stage(UPDATES, **OPTIMISERS[row])
    return entry("target_only", target, (), merge(SUPERVISED["target_only"][1], {"train": stage}), row=row)


TABLES = [
    *(
        Table(
            f"crosslm-fair3{'' if rate == RATES[0] else '-slow'}",
            f"CrossLM Table 3 with Adam at {rate:g} and as many updates for all rows, F1",
            [_fair(row, t, rate) for row in SUPERVISED for t in BIOMEDICAL],
            published={(r, t): PUBLISHED_3[t][i] for i, r in enumerate(SUPERVISED) for t in BIOMEDICAL},
            notes=(
                f"{UPDATES:,} updates of 64 sentences a task in all; fine-tuning and bilm have half of them in each of "
                "two stages.",
                *BIO_NOTES[1:],
            ),
            average=True,
            ours="crosslm",
        )
        for rate in RATES
    ),
    Table(
        "crosslm-rates",
        "CrossLM: optimiser and rate of the tagger alone, F1 on dev",
        [_rate(row, t) for row in OPTIMISERS for t in BIOMEDICAL],
        notes=("Dev scores, by which settings are chosen.",),
        average=True,
        value=on_dev,
    ),
]
