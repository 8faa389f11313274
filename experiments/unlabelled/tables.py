"""Teacher and student on unlabelled text: no labels of the target, or fifty. Everything here runs on a CPU.

Recurrent tagger without word vectors, preset `default`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.cells import Cell
from experiments.table import Table, by_target, entry, on_dev
from nershift.config import merge

UPDATES = 1000
SHOTS = 50
TEXTS = {"bionlp13pc": "raw_biomedical", "wnut2017": "wnut2017", "mit_movie": "raw_movie_reviews"}
CHOSEN_ON = ("bionlp13pc", "mit_movie")
WITH_SOURCE = ("wnut2017",)  # in fifty tweets there is hardly an entity: alone they teach nothing
CBS, SOURCE, NEWS = "cbs_scitech", ("conll2003_en",), (("target", "raw_abc_science"),)

_PLAIN = {"preset": "default", "selection": "last"}
_STUDENT = {"train": {"updates": UPDATES}, "options": {"batch_size": 16}}
_FEW = merge(_PLAIN, merge(_STUDENT, {"options": {"sentences": 5000, "teacher_updates": UPDATES}}))
_ZERO = merge(_PLAIN, merge(_STUDENT, {"options": {"sentences": 8000}}))
# Rows of teacher and student: what the student learns, and from which sentences.
VARIANTS: dict[str, dict[str, Any]] = {
    "soft, 1 round": {"rounds": 1},
    "soft, 3 rounds": {"rounds": 3},
    "hard, 1 round": {"rounds": 1, "targets": "hard"},
    "hard, 3 rounds": {"rounds": 3, "targets": "hard"},
    "soft, 3 rounds, surest half by type": {"rounds": 3, "keep": 0.5},
    "soft, 3 rounds, surest half of all": {"rounds": 3, "keep": 0.5, "quotas": False},
}
BEST = "soft, 3 rounds"


def few(variant: str, target: str) -> Cell:
    config = merge(_FEW, {"options": VARIANTS[variant]})
    raw, row = (("target", TEXTS[target]),), f"teacher and student, {variant}"
    return _few("teacher_student", target, config, raw=raw, row=row)


def labels_alone(target: str, updates: int) -> Cell:
    config, method = merge(_PLAIN, {"train": {"updates": updates}}), "target_only"
    row = f"the labels alone, {updates:,} updates"
    return _few("finetune" if target in WITH_SOURCE else method, target, config, row=row)


def _few(method: str, target: str, config: Mapping[str, Any], **more: Any) -> Cell:
    sources = SOURCE if target in WITH_SOURCE else ()
    return entry(method, target, sources, config, shots=SHOTS, joint=not sources, **more)


def zero(method: str, config: Mapping[str, Any], row: str) -> Cell:
    """All rows start from one training on the source."""
    raw = () if method == "source_only" else NEWS
    return entry(method, CBS, SOURCE, config, raw=raw, row=row, joint=False)


_SELFTRAIN = merge(_PLAIN, {"train": {"updates": UPDATES, "batch_size": 16}, "options": {"candidates": 8000}})
_GOLD = "A quarter of the student's updates learn from gold labels"
_FEW_NOTES = (
    f"{SHOTS} labelled sentences, nothing selected on dev. The labels alone train for {UPDATES:,} updates of 4 "
    f"sentences; so does the teacher, whose copy the student starts from, for {UPDATES:,} more updates of 16 sentences "
    f"out of 5,000 of the text. {_GOLD} of the target. Text: "
    + ", ".join(f"{text} for {target}" for target, text in TEXTS.items())
    + ". On wnut2017 all rows begin with 1,500 updates on conll2003_en: in fifty tweets there is hardly an entity.",
)
_TWICE = "Teacher and student train for twice as long as the teacher alone: hence the second row."

TABLES = [
    Table(
        "unlabelled-few",
        f"{SHOTS} labelled sentences and unlabelled text, F1",
        [
            cell
            for target in TEXTS
            for cell in (labels_alone(target, UPDATES), few(BEST, target), labels_alone(target, 2 * UPDATES))
        ],
        by_target,
        notes=_FEW_NOTES,
        average=True,
        ours=f"teacher and student, {BEST}",
        unequal=_TWICE,
    ),
    Table(
        "unlabelled-choices",
        f"{SHOTS} labelled sentences and unlabelled text: what the student learns, F1 on dev",
        [
            *(labels_alone(target, UPDATES) for target in CHOSEN_ON),
            *(few(variant, target) for variant in VARIANTS for target in CHOSEN_ON),
        ],
        by_target,
        notes=(*_FEW_NOTES, "Dev scores, by which we choose."),
        average=True,
        value=on_dev,
        seeds=(1,),
        unequal="Teacher and student train for twice as long as the teacher alone.",
    ),
    Table(
        "unlabelled-cbs",
        "No target labels, conll2003_en to science and technology news, F1",
        [
            zero("source_only", _PLAIN, "source_only"),
            zero("selftrain", _SELFTRAIN, "selftrain"),
            zero("teacher_student", merge(_ZERO, {"options": {"gold_share": 1.0}}), "the source alone for longer"),
            *(zero("teacher_student", merge(_ZERO, {"options": over}), row) for row, over in VARIANTS.items()),
        ],
        by_target,
        notes=(
            "All rows start from the source's tagger (1,500 updates, selected on its dev split) and learn for "
            f"{UPDATES:,} updates of 16 sentences more; texts are 8,000 sentences of raw_abc_science. {_GOLD} of the "
            "source, all of them in the row without text. Nothing of the target selects anything.",
        ),
        ours=BEST,
        unequal="source_only is where the others start.",
    ),
]
