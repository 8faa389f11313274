"""MetaNER's tables with one budget for every row, and the controls that the paper lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.baselines.tables import VECTORS
from experiments.cells import Cell
from experiments.metaner.tables import (
    EIGHT,
    HETEROGENEOUS,
    HOMOGENEOUS,
    OPEN_DATA,
    PUBLISHED_2_MEANS,
    PUBLISHED_3,
    SUBSTITUTES,
    TARGETS,
    TWO_STAGES,
    sources_of,
)
from experiments.table import Place, Table, by_target, entry
from nershift.config import merge

RATIOS = (0.05, 0.1, 0.2, 0.5)
SHOTS = (10, 20, 50, 100)
FEW_TARGETS = (
    "crossner_music", "crossner_politics", "mit_movie", "mit_restaurant", "bionlp13pc", "bionlp13cg", "re3d",
    "sec_filings",
)  # fmt: skip
CURVE_TARGETS = ("bionlp13pc", "mit_restaurant", "re3d")
UPDATES = 2000  # of each of two stages; a method of one stage has the sum
FEW_UPDATES = 1000
RATE = 2e-3
_WITHOUT_TARGET = ("source_only", "metaner-zero")
_HAS_PRETRAINING = (*TWO_STAGES, "dann")


def stage(updates: int, batch_size: int) -> dict[str, Any]:
    """One optimiser and rate for all; nothing stops early."""
    return {
        "optimizer": "adam", "lr": RATE, "schedule": "constant", "updates": updates, "epochs": 0, "patience": 0,
        "batch_size": batch_size,
    }  # fmt: skip


def budget(method: str, updates: int, batch_size: int) -> dict[str, Any]:
    """``updates`` for each of two stages, the first in batches of 32; twice as many for a single one.

    What pools all corpora has batches between the two, so that it sees as many sentences.
    """
    single = 2 * updates
    if method == "aggregate":
        return {"train": stage(single, (32 + batch_size) // 2)}
    if method in _WITHOUT_TARGET:
        return {"pretrain": stage(single, 32)}
    if method in _HAS_PRETRAINING:
        return {"pretrain": stage(updates, 32), "train": stage(updates, batch_size)}
    return {"train": stage(single, batch_size)}


def fair(method: str, target: str, over: Mapping[str, Any] | None = None, **more: Any) -> Cell:
    """All labels, GloVe, weights selected on dev."""
    config = merge({"preset": "default", "selection": "dev"}, VECTORS)
    return _cell(method, target, merge(merge(config, budget(method, UPDATES, 32)), over or {}), **more)


def few(method: str, target: str, over: Mapping[str, Any] | None = None, **more: Any) -> Cell:
    """Few labels and no word vectors, of a size that a CPU can run; no dev split is looked at."""
    config = merge({"preset": "default", "selection": "last"}, budget(method, FEW_UPDATES, 4))
    return _cell(method, target, merge(config, over or {}), **more)


def _cell(method: str, target: str, config: Mapping[str, Any], **more: Any) -> Cell:
    sources = sources_of(target) if more.get("labels", "own") == "own" else tuple(d for d in EIGHT if d != target)
    joint = method not in TWO_STAGES
    return entry(method, target, () if method == "target_only" else sources, config, joint=joint, **more)


def _share(method: str, target: str, ratio: float, **more: Any) -> Cell:
    """A share of the labels: as with all, but no dev split is looked at, and batches are smaller."""
    over = {"selection": "last"} | budget(method, FEW_UPDATES, 16)
    return fair(method, target, over, ratio=ratio, **more)


def _by_share(c: Cell) -> Place:
    return c.name, f"{c.target} {100 * (c.ratio or 1):g}%"


_THREE = {"pretrain": {"accumulate": 3}}  # θ learns from one domain an iteration; Algorithm 1's from three
_EPISODES = {"episodes": True, "episode_lr": RATE}
# Row: method and settings over its budget.
CONTROLS: dict[str, tuple[str, dict[str, Any]]] = {
    "finetune": ("finetune", {}),
    "metaner": ("metaner", {}),
    "metaner, no meta-learning": ("metaner", {"options": {"meta": False}}),
    "metaner, discriminator on all domains": ("metaner", {"options": {"discriminator_domains": "all"}}),
    "metaner, MAML update": ("metaner", merge(_THREE, {"options": {"update": "maml"}})),
    "metaner, episodes (MAML)": ("metaner", {"options": {**_EPISODES, "outer": "maml"}}),
    "metaner, episodes (Reptile)": ("metaner", {"options": {**_EPISODES, "outer": "reptile"}}),
    "metaner, episodes (MAML), learned rates": (
        "metaner",
        {"options": {**_EPISODES, "outer": "maml", "learned_rates": True}},
    ),
}
# An episode costs about three plain batches of 32 beside its own.
_AS_DEAR = {"pretrain": {"updates": 4 * FEW_UPDATES}}
FEW_CONTROLS = {
    "target_only": ("target_only", {}),
    "aggregate": ("aggregate", {}),
    "multitask": ("multitask", {}),
    **CONTROLS,
    "finetune, four times the source updates": ("finetune", _AS_DEAR),
}


def _controls(shots: int) -> list[Cell]:
    return [
        few(method, t, over, row=row, shots=shots) for row, (method, over) in FEW_CONTROLS.items() for t in FEW_TARGETS
    ]


_FAIR = (
    f"One budget: {UPDATES:,} updates on the sources and {UPDATES:,} on the target, twice as many for a method of one "
    f"stage; Adam at {RATE:g}, batches of 32 of each corpus that an update draws from, no early stopping, weights "
    "selected on the same dev split. Rows of types that a source has too are kept by every head that can."
)
_FAIR_FEW = (
    f"One budget: {FEW_UPDATES:,} updates on the sources in batches of 32 and {FEW_UPDATES:,} on the target in batches "
    f"of 4, twice as many for a method of one stage; Adam at {RATE:g}. No word vectors. Nothing is selected on dev: "
    "the mean of the last weights is kept."
)
_MAML = "The MAML row adds up three iterations an update, so that θ learns from as many batches as in Algorithm 1."
_EPISODE_NOTE = (
    "Episodes are beyond the paper: a source, 5 to 50 of its sentences, a new head, 15 updates as on a target. An "
    "update with one costs about as much as four plain ones, hence the last row."
)

TABLES = [
    Table(
        "metaner-fair3",
        "MetaNER Table 3 with one budget for all rows: heterogeneous domain adaptation, F1",
        [fair(m, t) for m in HETEROGENEOUS for t in TARGETS],
        published={(m, t): PUBLISHED_3[t][i] for i, m in enumerate(HETEROGENEOUS) for t in TARGETS},
        notes=(_FAIR, *SUBSTITUTES),
        average=True,
        ours="metaner",
    ),
    Table(
        "metaner-fair2",
        "MetaNER Table 2 with one budget for all rows: homogeneous domain adaptation, leave one domain out, F1",
        [fair(m, t, labels="homogeneous") for m in HOMOGENEOUS for t in EIGHT],
        published={(m, "mean"): PUBLISHED_2_MEANS[i] for i, m in enumerate(HOMOGENEOUS)},
        notes=(
            _FAIR,
            OPEN_DATA,
            "The published mean is over the six genres of ACE 2005: other data, so only the order compares.",
        ),
        average=True,
        ours="metaner",
    ),
    Table(
        "metaner-curves",
        "MetaNER Figures 5 to 7 with one budget for all rows: F1 with 5, 10, 20 and 50% of the labels",
        [_share(m, t, r) for m in HETEROGENEOUS for t in CURVE_TARGETS for r in RATIOS],
        _by_share,
        notes=(
            f"As in metaner-fair3, but {FEW_UPDATES:,} updates a stage, batches of 16 on the target, and no dev split "
            "is looked at: the mean of the last weights is kept.",
            *SUBSTITUTES,
        ),
        average=True,
        ours="metaner",
    ),
    Table(
        "metaner-curves2",
        "MetaNER Figures 4 and 5 with one budget for all rows: homogeneous, 5, 10, 20 and 50% of the labels, F1",
        [
            _share(m, t, r, labels="homogeneous")
            for m in HOMOGENEOUS
            if m not in _WITHOUT_TARGET
            for t in ("wikigold", "wnut2017")
            for r in RATIOS
        ],
        _by_share,
        notes=("As in metaner-curves.", OPEN_DATA),
        average=True,
        ours="metaner",
    ),
    Table(
        "metaner-control",
        "MetaNER: is it meta-learning? Controls with one budget, F1",
        [fair(method, t, over, row=row) for row, (method, over) in CONTROLS.items() for t in TARGETS],
        published={(m, t): PUBLISHED_3[t][HETEROGENEOUS.index(m)] for m in ("finetune", "metaner") for t in TARGETS},
        notes=(_FAIR, _MAML, _EPISODE_NOTE.removesuffix(", hence the last row.") + ".", *SUBSTITUTES),
        average=True,
        ours="metaner",
    ),
    *(
        Table(
            f"metaner-control-{n}",
            f"MetaNER: is it meta-learning? The same with {n} sentences of eight targets, F1",
            _controls(n),
            by_target,
            notes=(_FAIR_FEW, _MAML, _EPISODE_NOTE),
            average=True,
            ours="metaner",
            unequal="Only the last row does, on purpose: its updates cost as much as those with episodes.",
        )
        for n in SHOTS
    ),
]
