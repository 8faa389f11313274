"""One model of CrossNER that learns from a vote: six taggers label Wikipedia for a seventh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.cells import Cell
from experiments.laner.crossner import ABLATION, joint, lengths
from experiments.laner.recipe import CROSSNER, by_column
from experiments.laner.steps import DOMAINS, Step, step_cells
from experiments.table import Table, on_dev
from nershift.config import merge

TEACHERS = ("LANER, best recipe", "tagger, carried, best recipe")
TEACHER_SEEDS = (1, 2, 3)
TEXT, SENTENCES, UPDATES = "raw_wiki_en", 3000, 2000
_STUDENT: dict[str, Any] = {
    "train": lengths(1408, UPDATES)["train"],
    "options": {"sentences": SENTENCES, "pick": "similar", "gold_share": 0.25, "batch_size": 32},
}
# Row: what the student reads and from whom it learns.
STUDENTS: dict[str, tuple[Mapping[str, Any], Sequence[str]]] = {
    "student of all six": ({}, TEACHERS),
    "the same without text": ({"options": {"gold_share": 1.0}}, TEACHERS),
    "… text from everywhere": ({"options": {"pick": "spread"}}, TEACHERS),
    "… half of the updates on gold labels": ({"options": {"gold_share": 0.5}}, TEACHERS),
    "… three trainings averaged": ({"train": {"model_soup": 3}}, TEACHERS),
    "… a student with LANER's head": ({"head": {"kind": "label-aware"}}, TEACHERS),
}


def _teachers(rows: Sequence[str], column: str) -> tuple[Cell, ...]:
    grid = step_cells({row: ABLATION[row] for row in rows}, [column])
    return tuple(replace(c, table="laner-vote", seed=seed) for c in grid for seed in TEACHER_SEEDS)


def _students(column: str) -> list[Cell]:
    """They start where the plain teachers started: from the tagger of all sources."""
    head, settings, _ = ABLATION["tagger, carried, best recipe"]
    cells = []
    for row, (over, teachers) in STUDENTS.items():
        config = merge(merge(settings, _STUDENT), over)
        (plain,) = step_cells({row: (head, config, DOMAINS)}, [column])
        raw, taught = (("target", TEXT),), _teachers(teachers, column)
        cells.append(replace(plain, method="teacher_student", raw=raw, teachers=taught))
    return cells


# Soups: of trainings that share their start, at each of the two stages.
_GENTLE = merge(joint(4, landing=15, encoder_lr=1e-5), {"options": {"new_rows": "names"}})
SOUPS: dict[str, Step] = {
    "LANER, best recipe, 15 gentle epochs": ("LB+LC", _GENTLE, DOMAINS),
    "… the mean of six such trainings": ("LB+LC", merge(_GENTLE, {"train": {"model_soup": 6}}), DOMAINS),
    "… after the mean of three on the sources": (
        "LB+LC",
        merge(_GENTLE, {"pretrain": {"model_soup": 3}, "train": {"model_soup": 6}}),
        DOMAINS,
    ),
}
_CELLS = [
    *step_cells({row: ABLATION[row] for row in TEACHERS} | SOUPS, CROSSNER),
    *(cell for column in CROSSNER for cell in _students(column)),
]
_NOTES = (
    f"mpnet with characters. Teachers: {', '.join(TEACHERS)}, three seeds each. Their probabilities are averaged. They "
    f"label {SENTENCES:,} sentences of Wikipedia, those most like the target's labelled ones (tf-idf), without any dev "
    f"or test sentence. A student starts from the plain tagger of all sources and learns for {UPDATES:,} updates, one "
    "in four of them on 8 gold sentences, the others on 32 of the text.",
    "All students of a row have the same six teachers, so their spread is that of the students alone. The teachers "
    "shown taught the student with LANER's head, which starts from LANER's own training on the sources. Those of the "
    "other students were trained with the same seeds before (LANER 72.9, plain head 71.7, their vote 74.7).",
)
_LONGER = "Students learn longer than each teacher; the second student shows what the length alone does."

TABLES = [
    Table(
        "laner-vote",
        "LANER: one model of CrossNER that learns from a vote, F1",
        _CELLS,
        by_column,
        notes=_NOTES,
        average=True,
        ours="student of all six",
        unequal=_LONGER,
    ),
    Table(
        "laner-vote-dev",
        "LANER: the same on dev, which chooses, F1",
        _CELLS,
        by_column,
        notes=_NOTES,
        average=True,
        value=on_dev,
        unequal=_LONGER,
    ),
]
