"""English to other languages without labels: a multilingual encoder, and a student that reads the language itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.cells import Cell
from experiments.table import Place, Table, entry
from nershift.config import merge

SOURCE = ("conll2003_en",)
LANGUAGES = {"es": "conll2002_es", "nl": "conll2002_nl", "de": "conll2003_de"}
SHOWN = {corpus: language for language, corpus in LANGUAGES.items()}
# Three passes over English in batches of 32, then a student of 1,000 updates: three passes over 8,000 sentences, and
# what is left for gold labels.
SOURCE_UPDATES, UPDATES, SENTENCES = 1317, 1000, 8000
SEEDS = (1, 2, 3)
_RATES: dict[str, Any] = {
    "optimizer": "adamw",
    "lr": 5e-4,
    "encoder_lr": 5e-5,
    "weight_decay": 0.01,
    "clip": 1.0,
    "schedule": "linear",
    "warmup": 0.1,
    "batch_size": 32,
    "eval_batch_size": 256,
    "precision": "bf16",
}
_CONFIG: dict[str, Any] = {
    "preset": "default",
    "encoder": {"kind": "transformer", "transformer": {"name": "gemma", "freeze_embeddings": True}},
    "head": {"kind": "softmax"},
    "selection": "last",
    "pretrain": merge(_RATES, {"updates": SOURCE_UPDATES}),
    "train": merge(_RATES, {"updates": UPDATES, "average_last": 0.3}),
}
_READS = {"options": {"sentences": SENTENCES, "batch_size": 32}}
# Row: what the student learns from its own teacher.
STUDENTS: dict[str, dict[str, Any]] = {
    "student, soft, 1 round": {},
    "student, soft, 3 rounds": {"rounds": 3},
    "student, hard, 1 round": {"targets": "hard"},
    "student, soft, 1 round, no gold labels": {"gold_share": 0.0},
}
VOTE = "student of three English taggers"


def cell(method: str, language: str, row: str, over: Mapping[str, Any] | None = None, **more: Any) -> Cell:
    config = merge(_CONFIG, over or {})
    return entry(method, LANGUAGES[language], SOURCE, config, shots=0, joint=False, row=row, **more)


def student(language: str, row: str, options: Mapping[str, Any], teachers: Sequence[Cell] = ()) -> Cell:
    """It reads the language's own training sentences, without their labels."""
    over, raw = merge(_READS, {"options": dict(options)}), (("target", f"{LANGUAGES[language]}:train"),)
    return cell("teacher_student", language, row, over, raw=raw, teachers=tuple(teachers))


def _rows() -> list[Cell]:
    longer = {"pretrain": {"updates": SOURCE_UPDATES + UPDATES}}
    cells = []
    for language in LANGUAGES:
        english = cell("source_only", language, "English alone")
        cells += [english, cell("source_only", language, "English alone for longer", longer)]
        cells += [student(language, row, options) for row, options in STUDENTS.items()]
        taught = [replace(english, table="unlabelled-languages", seed=seed) for seed in SEEDS]
        cells.append(student(language, VOTE, {"gold_share": 0.0}, taught))
    return cells


def by_language(c: Cell) -> Place:
    return c.name, SHOWN[c.target]


TABLES = [
    Table(
        "unlabelled-languages",
        "English to three languages without their labels, gemma, F1",
        _rows(),
        by_language,
        notes=(
            "Gemma 3 270M, read in both directions and adapted to text of these languages, its sub-word embeddings "
            f"frozen; a softmax head. English: {SOURCE_UPDATES:,} updates of 32 sentences (three passes), selected on "
            "the English dev split; for longer: as many updates as English and student together. A student starts "
            f"from the English tagger of its seed and reads up to {SENTENCES:,} training sentences of the language "
            f"without their labels for {UPDATES:,} updates of 32; one update in four learns English gold labels, "
            "except where there are none. The student of three learns the mean of their probabilities. No label of a "
            "target selects anything.",
        ),
        average=True,
        ours="student, soft, 1 round",
        unequal="Students train on after English; the second row shows what the length alone does.",
    )
]
