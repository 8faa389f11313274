"""Few labels with our own recipe (preset `default`), no word vectors: heads, rows, selection, budgets, methods.

Everything here runs on a CPU. Choices are made by dev scores of four corpora and judged by test scores of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.cells import Cell
from experiments.table import Table, by_target, entry, on_dev
from nershift.config import merge

SOURCES = ("wikigold", "conll2003_en")
CHOSEN_ON = ("crossner_ai", "mit_restaurant", "bionlp13pc", "wnut2017")
JUDGED_ON = ("crossner_music", "mit_movie", "re3d", "bionlp13cg")
SHOTS = (10, 20, 50, 100)
UPDATES = 1000  # of each stage
LABELLED = {  # training sentences of targets that have few
    "crossner_music": 100, "crossner_ai": 100, "crossner_politics": 200, "re3d": 689, "sec_filings": 1048,
}  # fmt: skip
Rows = Mapping[str, tuple[str, Mapping[str, Any]]]  # row: method and settings

_BUDGET = {
    "preset": "default",
    "selection": "last",
    "pretrain": {"updates": UPDATES, "batch_size": 32},
    "train": {"updates": UPDATES, "batch_size": 4},
}


def cell(method: str, target: str, config: Mapping[str, Any], shots: int, **more: Any) -> Cell:
    sources = () if method == "target_only" else SOURCES
    return entry(method, target, sources, config, shots=shots, joint=method not in ("finetune", "metaner"), **more)


def _by_amount(rows: Rows, targets: Sequence[str], shots: Sequence[int]) -> list[Cell]:
    """A row for each amount of labels that its target has."""
    return [
        cell(method, target, merge(_BUDGET, over), n, row=f"{row}, {n}")
        for n in shots
        for row, (method, over) in rows.items()
        for target in targets
        if n <= LABELLED.get(target, n)
    ]


HEADS: Rows = {
    f"{kind}, {method}": (method, {"head": {"kind": kind}})
    for method in ("target_only", "finetune")
    for kind in ("crf", "softmax", "span")
}
NEW_ROWS: Rows = {
    f"{'kept rows' if kept else 'no kept rows'}, new ones: {start}": (
        "finetune",
        {"head": {"from_source": kept, "new_rows": start}},
    )
    for kept in (False, True)
    for start in ("random", "prototypes", "names")
}
_SELECTIONS: dict[str, dict[str, Any]] = {
    "dev of the corpus": {"selection": "dev"},
    "a fifth of the labels": {"selection": "held_out"},
    "last weights": {"selection": "last", "train": {"average_last": 0.0}},
    "mean of the last weights": {"selection": "last", "train": {"average_last": 0.3}},
}
SELECTION: Rows = {
    f"{what}, {method}": (method, over) for method in ("target_only", "finetune") for what, over in _SELECTIONS.items()
}
BUDGETS: Rows = {
    f"{updates:,} updates of {size}": ("target_only", {"train": {"updates": updates, "batch_size": size}})
    for updates, size in ((250, 4), (500, 4), (1000, 4), (2000, 4), (1000, 8), (1000, 16), (1000, 32))
}
_MINILM = {"encoder": {"kind": "transformer", "transformer": {"name": "minilm"}}}
# Pretrained encoders: how fast they may learn, and for how long.
ENCODERS = ("minilm", "distilbert-cased", "mpnet")
_SETTINGS: dict[str, dict[str, Any]] = {
    "encoder at 2e-5": {"encoder_lr": 2e-5},
    "encoder at 5e-5": {"encoder_lr": 5e-5},
    "encoder at 1e-4": {"encoder_lr": 1e-4},
    "encoder at 2e-4": {"encoder_lr": 2e-4},
    "encoder at 5e-5, 1,000 updates": {"encoder_lr": 5e-5, "updates": 1000},
    "encoder at 1e-4, 1,000 updates": {"encoder_lr": 1e-4, "updates": 1000},
}


def encoder_rows(encoder: str, settings: Iterable[str] = _SETTINGS) -> Rows:
    """The target alone with an encoder; batches of 4, 500 updates unless the row says otherwise."""
    plain = {"encoder": {"kind": "transformer", "transformer": {"name": encoder}}, "train": {"updates": 500}}
    return {f"{encoder}, {name}": ("target_only", merge(plain, {"train": _SETTINGS[name]})) for name in settings}


METHODS = ("target_only", "finetune", "multitask", "metaner", "auto-datnet")
WHICH = (
    "crossner_music", "crossner_politics", "mit_movie", "mit_restaurant", "re3d", "bionlp13cg", "wnut2016",
    "sec_filings",
)  # fmt: skip
AMOUNTS = (10, 50, 200, 1000)


def _which(shots: int) -> list[Cell]:
    """With nothing set but the encoder, as a user runs them."""
    targets = [t for t in WHICH if shots <= LABELLED.get(t, shots)]
    plain = {"preset": "default", "selection": "last"}
    cells = [cell(m, t, plain, shots) for m in METHODS for t in targets]
    return cells + [cell("target_only", t, merge(plain, _MINILM), shots, row="target_only, MiniLM") for t in targets]


_RECIPE = (
    f"Preset `default`, no word vectors; {UPDATES:,} updates on wikigold and conll2003_en in batches of 32, "
    f"{UPDATES:,} on the target in batches of 4. The number is that of labelled target sentences. Nothing is selected "
    "on dev: the mean of the last weights is kept."
)
_ON_DEV = "Dev scores, by which we choose."
_LONGER = "Rows say how long they train."
_TWO_METHODS = "Fine-tuning also trains on the sources: compare rows of one method."


def _pair(name: str, title: str, rows: Rows, shots: Sequence[int], unequal: str = "") -> list[Table]:
    """The table that chooses, and the one that judges."""
    chosen = Table(
        f"{name}-dev",
        f"{title}: what chose, F1 on dev",
        _by_amount(rows, CHOSEN_ON, shots),
        by_target,
        notes=(_RECIPE, _ON_DEV),
        average=True,
        value=on_dev,
        unequal=unequal,
    )
    judged = Table(
        name,
        f"{title}: targets that chose nothing, F1",
        _by_amount(rows, JUDGED_ON, shots),
        by_target,
        notes=(_RECIPE,),
        average=True,
        unequal=unequal,
    )
    return [chosen, judged]


TABLES = [
    *_pair("few-heads", "Few labels, which head", HEADS, SHOTS, _TWO_METHODS),
    *_pair("few-rows", "Few labels, how rows of the target's head start", NEW_ROWS, (10, 50)),
    *(
        table
        for encoder in ENCODERS
        for table in _pair(
            f"few-{encoder}", f"Few labels, how to train {encoder}", encoder_rows(encoder), (10, 50, 200), _LONGER
        )
    ),
    Table(
        "few-budget",
        "Few labels, how many updates of how many sentences: F1 on dev",
        _by_amount(BUDGETS, CHOSEN_ON, AMOUNTS),
        by_target,
        notes=("Preset `default` on the target alone, no word vectors.", _ON_DEV),
        value=on_dev,
        unequal="That is the question.",
    ),
    Table(
        "few-selection",
        "Few labels, what selects the weights: F1",
        _by_amount(SELECTION, JUDGED_ON, (10, 50)),
        by_target,
        notes=(
            _RECIPE.replace(" Nothing is selected on dev: the mean of the last weights is kept.", ""),
            "A dev split of hundreds of sentences is more labels than the training has: that row is no few-label "
            "result.",
        ),
        average=True,
        unequal=_TWO_METHODS,
    ),
    *(
        Table(
            f"few-which-{n}",
            f"Few labels, which method: {n:,} sentences, F1",
            _which(n),
            by_target,
            notes=(
                "Preset `default` with nothing set, no word vectors, from wikigold and conll2003_en; nothing is "
                "selected on dev. MiniLM: a pretrained encoder of 22 million weights, the target's labels alone.",
            ),
            average=True,
            ours="finetune",
            unequal="Each method has its own defaults; the seconds say what it costs.",
        )
        for n in AMOUNTS
    ),
]
