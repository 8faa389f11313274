"""LANER in updates: Table 3 and Figure 4 again, and the ablation that leads to the best model of CrossNER."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.cells import Cell
from experiments.laner.recipe import CARRIED, CROSSNER, HEADS, by_column, by_sentences, cell, targets_of
from experiments.laner.steps import DOMAINS, Step, step_cells
from experiments.laner.tables import PUBLISHED_3, published_rows
from experiments.table import Table, on_dev
from nershift.config import merge

SHOTS = (10, 20, 50, None)  # None: all 100
_NAMES = {"options": {"new_rows": "names"}}
_NEAREST = {"options": {"new_rows": "nearest"}}


def lengths(source: int, target: int) -> dict[str, Any]:
    """Both stages in updates."""
    return {
        "pretrain": {"updates": source, "epochs": 0},
        "train": {"updates": target, "epochs": 0, "patience": 0},
    }


def _rows() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Row: head and settings. The label-aware heads start new types from their names."""
    rows: dict[str, tuple[str, Mapping[str, Any]]] = {"LB+LC": ("LB+LC", _NAMES), "LB+LC, nearest": ("LB+LC", _NEAREST)}
    rows |= {head: (head, _NAMES) for head in ("w/o LC", "w/o LB")}
    return rows | {head: (head, {}) for head in (*(h for h in HEADS if h not in ("LB+LC", *rows)), *CARRIED)}


# Two epochs of CoNLL-2003 in batches of 64 are 440 updates.
_TABLE_3 = lengths(440, 800)
# Of a size that a CPU can run.
_SMALL: dict[str, Any] = merge(
    lengths(220, 400),
    {
        "encoder": {"transformer": {"name": "minilm"}},
        "pretrain": {"precision": "fp32"},
        "train": {"precision": "fp32"},
        "selection": "last",
    },
)


def _table3() -> list[Cell]:
    return [
        cell(head, "mpnet", target, merge(_TABLE_3, over), row=row)
        for row, (head, over) in _rows().items()
        for target in targets_of(CROSSNER)
    ]


def _figure4() -> list[Cell]:
    few = merge(_SMALL, {"train": {"average_last": 0.3}})
    rows = ("LB+LC", "LB+LC, nearest", "tagger", "tagger, carried")
    return [
        cell(_rows()[row][0], "mpnet", "crossner_ai", merge(few, _rows()[row][1]), row=row, shots=n)
        for row in rows
        for n in SHOTS
    ]


# An epoch of all sources (the five targets among them) in batches of 64 is 352 updates; one of 100 sentences in
# batches of 8 is 13.
EPOCH, TARGET_EPOCH = 352, 13


def joint(epochs: int, landing: int = 50, share: float = 0.1, **train: Any) -> dict[str, Any]:
    """So many epochs of all sources, then some of the target, with 30% of its entities replaced."""
    both = lengths(epochs * EPOCH, max(1, landing * TARGET_EPOCH))
    return merge(both, {"pretrain": {"min_source_share": share}, "train": {"mention_replacement": 0.3, **train}})


_GENTLE = {"encoder_lr": 1e-5}
_OWN = merge(_NAMES, {"options": {"own_types": True}})
_EIGHT = joint(8, share=0.3)
ABLATION: dict[str, Step] = {
    "tagger, carried, best recipe": ("tagger, carried", joint(4), DOMAINS),
    "CRF, carried, best recipe": ("CRF, carried", joint(4), DOMAINS),
    "LANER, best recipe, nearest": ("LB+LC", merge(joint(4), _NEAREST), DOMAINS),
    "LANER, best recipe": ("LB+LC", merge(joint(4), _NAMES), DOMAINS),
    **{
        f"… {epochs} joint epochs, share {share}": ("LB+LC", merge(joint(epochs, share=share), _NAMES), DOMAINS)
        for epochs in (8, 16)
        for share in (0.1, 0.3)
    },
    **{
        f"… 8 joint epochs, share 0.3, gentle landing of {landing} epochs": (
            "LB+LC",
            merge(joint(8, landing, 0.3, **_GENTLE), _NAMES),
            DOMAINS,
        )
        for landing in (0, 5, 15)
    },
    "… 8 joint epochs, share 0.3, own types": ("LB+LC", merge(_EIGHT, _OWN), DOMAINS),
    "… 8 joint epochs, share 0.3, own types, gentle landing of 15 epochs": (
        "LB+LC",
        merge(joint(8, 15, 0.3, **_GENTLE), _OWN),
        DOMAINS,
    ),
    "… 8 joint epochs, share 0.3, entities replaced there too": (
        "LB+LC",
        merge(merge(_EIGHT, _NAMES), {"pretrain": {"mention_replacement": 0.3}}),
        DOMAINS,
    ),
    "… 8 joint epochs, share 0.3, perturbed word vectors on the target": (
        "LB+LC",
        merge(merge(_EIGHT, _NAMES), {"train": {"fgm_epsilon": 1.0}}),
        DOMAINS,
    ),
    "tagger, carried, 8 joint epochs, share 0.3": ("tagger, carried", _EIGHT, DOMAINS),
    "tagger, carried, 8 joint epochs, share 0.3, gentle landing of 15 epochs": (
        "tagger, carried",
        joint(8, 15, 0.3, **_GENTLE),
        DOMAINS,
    ),
}
_MASK = "Types that the target lacks are never predicted, which earlier tables allowed."
_ABLATION_NOTE = (
    f"mpnet with characters; sources: CoNLL-2003, wikigold and the training splits of all five targets. A joint epoch "
    f"is {EPOCH} updates of 64 sentences, share 0.1 (train.min_source_share: how often small sources are seen beside "
    f"the largest), one of the target {TARGET_EPOCH} updates of 8, 50 of them unless the row says otherwise. Gentle: "
    "the encoder at 1e-5. A landing of 0 epochs is one update. New types start from their names. Own types: on the "
    "sources a sentence chooses among the types of its own corpus (options.own_types); the plain tagger always does, "
    "since it has a head for each corpus."
)
_LONGER = "Rows say how long they train: that is what they compare."

TABLES = [
    Table(
        "laner-fair3",
        "LANER Table 3 in updates: label background and context on CrossNER, F1",
        _table3(),
        by_column,
        published_rows(PUBLISHED_3, CROSSNER),
        (
            "mpnet with characters; 440 updates of 64 sentences on CoNLL-2003, 800 of 8 on the target, whatever it "
            "has. New types of the label-aware head start from their names, or as the known type with the nearest one. "
            "The plain heads start anew or, where marked carried, with the source's rows for types that both have.",
            _MASK,
        ),
        average=True,
        ours="LB+LC",
    ),
    Table(
        "laner-fig4-updates",
        "LANER Figure 4 in updates: number of target sentences, ai, F1",
        _figure4(),
        by_sentences,
        notes=(
            "all-MiniLM-L6-v2 with a character CNN, so that a CPU can run it; 220 updates on CoNLL-2003, 400 on the "
            "target, however few its sentences; no dev split is looked at.",
            _MASK,
        ),
    ),
    Table(
        "laner-crossner",
        "LANER: the way to one best model of CrossNER, F1",
        step_cells(ABLATION, CROSSNER),
        by_column,
        notes=(_ABLATION_NOTE, _MASK),
        average=True,
        ours="LANER, best recipe",
        unequal=_LONGER,
    ),
    Table(
        "laner-crossner-dev",
        "LANER: the same on dev, which chooses, F1",
        step_cells(ABLATION, CROSSNER),
        by_column,
        notes=(_ABLATION_NOTE, _MASK),
        average=True,
        value=on_dev,
        unequal=_LONGER,
    ),
]
