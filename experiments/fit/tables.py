"""What `nershift fit` knows: its recipes on many targets and amounts of labels, each as a user would run it.

Scores of these runs, on test, are the evidence that the planner reads (`python -m experiments evidence`). When fit is
judged on a target, the scores of that target are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.cells import Cell
from experiments.few.tables import CHOSEN_ON, LABELLED, WHICH, cell
from experiments.fit.cases import CASES, Case
from experiments.table import Place, Table, by_target, on_dev
from nershift.config import merge

_PLAIN = {"preset": "default", "selection": "last"}
AMOUNTS = (10, 50, 200)


def _encoder(name: str) -> dict[str, Any]:
    return {"encoder": {"kind": "transformer", "transformer": {"name": name}}}


# How far the target's few labels may move what the sources taught.
GENTLE: dict[str, dict[str, Any]] = {
    f"{updates} updates, encoder at {rate:g}": {"train": {"updates": updates, "encoder_lr": rate}}
    for updates in (200, 500, 1000)
    for rate in (5e-5, 2e-4, 5e-4)
}
# Row: method and settings over the defaults.
RECURRENT: dict[str, tuple[str, Mapping[str, Any]]] = {
    "target_only": ("target_only", {}),
    "finetune": ("finetune", {}),
    "finetune, 4,000 source updates": ("finetune", {"pretrain": {"updates": 4000}}),
}
MINILM: dict[str, tuple[str, Mapping[str, Any]]] = {
    "target_only, MiniLM": ("target_only", _encoder("minilm")),
    "finetune, MiniLM": ("finetune", _encoder("minilm")),
}


def by_situation(cell: Cell) -> Place:
    return cell.name, f"{cell.target} {cell.shots}"


LANGUAGES = [
    Case(target, 0, ("conll2003_en",), "multilingual", 0, "", raw=f"{target}:train@8000")
    for target in ("conll2002_es", "conll2002_nl", "conll2003_de")
]
RECURRENT_ZERO = [
    recipe for recipe in LANGUAGES[0].recipes().values() if not recipe.transformer and recipe.name != "selftrain"
]


def by_case(cell: Cell) -> Place:
    """Rows are situations here, since recipes are few."""
    plain = replace(cell, table="", seed=0)
    case = next(case for case in CASES if plain in [case.cell(recipe) for recipe in case.recipes().values()])
    return case.name, cell.name


def grid(
    rows: Mapping[str, tuple[str, Mapping[str, Any]]], targets: Sequence[str], amounts: Sequence[int]
) -> list[Cell]:
    return [
        cell(method, target, merge(_PLAIN, over), n, row=row)
        for n in amounts
        for row, (method, over) in rows.items()
        for target in targets
        if n <= LABELLED.get(target, n)
    ]


TABLES = [
    Table(
        "fit-gentle",
        "Fine-tuning that keeps more of what the sources taught: F1 on dev",
        grid({row: ("finetune", over) for row, over in GENTLE.items()}, CHOSEN_ON, (10, 50)),
        by_situation,
        notes=("Dev scores, by which we choose.",),
        average=True,
        value=on_dev,
        unequal="That is the question.",
    ),
    Table(
        "fit-recurrent",
        "The recipes of fit without a pretrained encoder: F1",
        grid(RECURRENT, (*CHOSEN_ON, *WHICH), AMOUNTS),
        by_situation,
        unequal="Each recipe has its own length; the seconds say what it costs.",
    ),
    Table(
        "fit-minilm",
        "The recipes of fit with a small pretrained encoder: F1",
        grid(MINILM, (*CHOSEN_ON, *WHICH), AMOUNTS),
        by_situation,
        unequal="Each recipe has its own length; the seconds say what it costs.",
    ),
    Table(
        "fit-judged",
        "Every recipe in the situations that fit is judged in: F1",
        [case.cell(recipe) for case in CASES for recipe in case.recipes().values()],
        by_case,
        notes=("The labels and the seed are those of the fits; what was chosen stands in docs/fit.md.",),
        seeds=(1,),
        unequal="Each recipe has its own length; the seconds say what it costs.",
    ),
    Table(
        "fit-languages",
        "Other languages without labels, recurrent recipes: F1",
        [replace(case.cell(recipe), shots=0) for recipe in RECURRENT_ZERO for case in LANGUAGES],
        by_target,
        notes=(
            "From conll2003_en. The text is the target's train split without its labels. The vectors are the table of "
            "a small multilingual encoder, as in docs/tutorials/another-language.md.",
        ),
        average=True,
        unequal="Each recipe has its own length; the seconds say what it costs.",
    ),
]
