"""Tables 2-4 and Figures 2-4 of LANER, and domain-adaptive pre-training where there is raw text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.cells import Cell
from experiments.crosslm.tables import SUPERVISED
from experiments.laner.recipe import (
    CARRIED,
    CROSSNER,
    ENCODERS,
    HEADS,
    MIT,
    SOURCE,
    by_column,
    by_sentences,
    cell,
    targets_of,
)
from experiments.laner.steps import (
    ABLATION_TARGETS,
    ABLATIONS,
    DAPT_SHOTS,
    RECIPES,
    STEPS,
    carried_cells,
    dapt_cells,
    step_cells,
)
from experiments.table import Place, Table, by_parts, entry, on_dev, on_type, published_grid
from nershift.config import merge

AI_TYPES = (
    "field", "task", "product", "algorithm", "researcher", "metrics", "university", "country", "programlang",
    "conference", "person", "organisation", "location", "misc",
)  # fmt: skip
PUBLISHED_3: dict[str, tuple[float, ...]] = {  # politics, science, music, literature, ai, movie, restaurant
    "LB+LC": (71.65, 69.29, 73.07, 67.98, 61.72, 72.41, 80.55),
    "w/o LC": (70.94, 71.11, 71.51, 67.24, 59.23, 72.26, 80.35),
    "w/o LB": (70.61, 68.43, 70.07, 67.53, 59.41, 70.79, 79.08),
    "CRF": (70.47, 66.77, 70.34, 67.15, 58.03, 69.92, 78.74),
    "tagger": (68.71, 64.94, 68.30, 63.63, 58.88, 69.80, 78.63),
}
PUBLISHED_2: dict[str, tuple[float, ...]] = {
    "LSTM-CRF": (56.60, 49.97, 44.79, 43.03, 43.56, 68.31, 78.13),
    "crosslm": (68.44, 64.31, 63.56, 59.59, 53.70),
    "LANER (mpnet)": PUBLISHED_3["LB+LC"],
}
PUBLISHED_4 = {"LB+LC": (68.13, 66.21, 68.75, 61.37, 53.09), "tagger": (66.56, 63.73, 66.59, 59.95, 50.37)}
COLUMNS = (*CROSSNER, *MIT.values())
SIZES = (10, 50, 100, 150, 200, 300, 500, 1000)
SHOTS = (10, 20, 30, 40, 50, 60, 70, 80, 90, None)  # None: all 100


def _table3(columns: Sequence[str]) -> list[Cell]:
    rows = [(head, encoder) for encoder in ENCODERS for head in HEADS] + [(head, "mpnet") for head in CARRIED]
    return [cell(head, encoder, t) for head, encoder in rows for t in targets_of(columns)]


def _table2(columns: Sequence[str]) -> list[Cell]:
    """The rows without a transformer are trained as in CrossLM's own tables."""
    targets, crossner = targets_of(columns), targets_of([c for c in columns if c in CROSSNER])
    # An epoch of CrossNER is a few steps, each followed by dev.
    patient = {t: {"train": {"patience": 30}} for t in crossner}
    plain = [
        entry("finetune", t, SOURCE, merge(SUPERVISED["finetune"][1], patient.get(t, {})), row="LSTM-CRF", joint=False)
        for t in targets
    ]
    plain += [entry("crosslm", t, SOURCE, SUPERVISED["crosslm"][1], row="crosslm") for t in crossner]
    return plain + [cell("LB+LC", e, t, row=f"LANER ({e})") for e in ENCODERS for t in targets]


def _table4() -> list[Cell]:
    """No source: the target's labels alone."""
    return [
        replace(cell(head, encoder, target, joint=True), method=method, sources=())
        for encoder in ENCODERS
        for head, method in (("LB+LC", "laner"), ("tagger", "target_only"))
        for target in targets_of(CROSSNER)
    ]


def _on_ai(heads: Sequence[str], shots: Sequence[int | None] = (None,)) -> list[Cell]:
    return [cell(head, "mpnet", "crossner_ai", shots=n) for head in heads for n in shots]


def _figure3() -> list[Cell]:
    """100 is the default: leaving it unsaid lets the cell share its result with Table 3."""
    over: dict[int, dict[str, Any]] = {d: {} if d == 100 else {"options": {"label_size": d}} for d in SIZES}
    return [cell("LB+LC", "mpnet", "crossner_ai", over[d], row=f"d2 = {d}") for d in SIZES]


def published_rows(
    rows: Mapping[str, Sequence[float]], columns: Sequence[str], shown: str = "{}"
) -> dict[Place, float]:
    """Published numbers by row and column, for the columns of a table."""
    whole = published_grid({shown.format(row): values for row, values in rows.items()}, COLUMNS)
    return {place: value for place, value in whole.items() if place[1] in columns}


_ENCODER_NOTE = (
    "Encoders here: all-mpnet-base-v2 (uncased, with a character CNN) and DistilBERT cased; the paper has BERT-base "
    "cased, whose numbers stand below the rows of the first."
)
_RATE_NOTE = (
    "The encoder learns at the paper's 5e-5 (restaurant too, where the paper has 1e-5), parts that start from nothing "
    "at 5e-4, both rising over a tenth of the steps and then falling; two epochs of the source in batches of 64, 25 of "
    "the target in batches of 8 (movie, restaurant: 4 of 32); bfloat16. The heads differ in nothing else but how their "
    "rows start. `laner-ablation` has the paper's own recipe. CoNLL's short type names are those of CrossNER written "
    "out."
)
_STEP_NOTE = (
    "mpnet with characters; 'Wikipedia' adds wikigold to CoNLL-2003 as a source, 'all domains' also the training "
    "splits of all five targets (in one pre-training for all; a sentence that is dev or test of another target is left "
    "out), 'both encoders' puts DistilBERT cased beside mpnet. 'Best recipe' is all domains and 50 epochs, with four "
    "epochs of the sources and 30% of the target's entities replaced by others of their type "
    "(train.mention_replacement); 'averaged': the mean weights of those of three trainings that help on dev "
    "(train.model_soup)."
)
_RECIPE_NOTE = (
    "LANER with the sources of all domains; 50 epochs on the target unless the row says otherwise. Perturbed: a second "
    "loss on adversarial word vectors (train.fgm_epsilon = 1); swapped: 30% of the entities replaced by another of "
    "their type (train.mention_replacement)."
)
_QUOTED = (
    "Other rows of Table 2, quoted (politics, science, music, literature, ai): Flair 69.54, 64.71, 65.60, 61.35, "
    "52.48; Coach 61.50, 52.09, 51.66, 48.35, 45.15; BARTNER-base 69.90, 65.14, 65.35, 58.93, 53.00; Multi-Cell LSTM "
    "70.56, 66.42, 70.52, 66.96, 58.28."
)
_DAPT_NOTE = (
    "With domain-adaptive pre-training the paper has LB+LC 72.31, w/o LC 71.89, w/o LB 70.88, CRF 70.21, tagger 69.63 "
    "on average: not run, since no raw text of the CrossNER domains is at hand (see laner-dapt)."
)
_CARRIED_NOTE = (
    "The label-aware head starts with the source's rows for types that both have, and from the nearest name for the "
    "others. The plain heads start anew or, in the rows marked carried, with the source's rows for types that both "
    "have, as all heads of the paper do."
)
_MIT_NOTE = "In the public data of movie and restaurant dev equals test; here dev is a fixed tenth of train."
_NOTES = (_ENCODER_NOTE, _RATE_NOTE)
_LSTM = "The rows without a transformer train as in CrossLM's tables."
_ROWS_SAY = "The rows say how long they train: it is among what they compare."

_MIT = tuple(MIT.values())

TABLES = [
    Table(
        "laner-table2",
        "LANER Table 2: CrossNER from CoNLL-2003, F1",
        _table2(CROSSNER),
        by_column,
        published_rows(PUBLISHED_2, CROSSNER),
        (*_NOTES, _QUOTED, _DAPT_NOTE),
        average=True,
        ours="LANER (mpnet)",
        unequal=_LSTM,
    ),
    Table(
        "laner-table2-mit",
        "LANER Table 2: MIT movie and restaurant from CoNLL-2003, F1",
        _table2(_MIT),
        by_column,
        published_rows(PUBLISHED_2, _MIT),
        (*_NOTES, _MIT_NOTE),
        unequal=_LSTM,
    ),
    Table(
        "laner-table3",
        "LANER Table 3: label background and context on CrossNER, F1",
        _table3(CROSSNER),
        by_column,
        published_rows(PUBLISHED_3, CROSSNER, "{} (mpnet)"),
        (*_NOTES, _CARRIED_NOTE, _DAPT_NOTE),
        average=True,
        ours="LB+LC (mpnet)",
    ),
    Table(
        "laner-table3-mit",
        "LANER Table 3: label background and context on MIT movie and restaurant, F1",
        _table3(_MIT),
        by_column,
        published_rows(PUBLISHED_3, _MIT, "{} (mpnet)"),
        (*_NOTES, _CARRIED_NOTE, _MIT_NOTE),
    ),
    Table(
        "laner-table4",
        "LANER Table 4: in-domain, F1",
        _table4(),
        by_column,
        published_rows(PUBLISHED_4, CROSSNER, "{} (mpnet)"),
        _NOTES,
        average=True,
        ours="LB+LC (mpnet)",
    ),
    Table(
        "laner-fig2",
        "LANER Figure 2: F1 by type on ai",
        _on_ai(["LB+LC", "tagger"]),
        by_parts,
        notes=(*_NOTES, "The last four types are CoNLL's too."),
        parts=AI_TYPES,
        value=on_type,
    ),
    Table(
        "laner-fig3",
        "LANER Figure 3: size of a label's vector, ai",
        _figure3(),
        by_column,
        notes=_NOTES,
    ),
    Table(
        "laner-fig4",
        "LANER Figure 4: number of target sentences, ai (earlier, unequal budgets)",
        _on_ai(["LB+LC", "tagger", "tagger, carried"], SHOTS),
        by_sentences,
        notes=(*_NOTES, _CARRIED_NOTE),
    ),
    Table(
        "laner-steps",
        "LANER: from the plain head to the best, CrossNER, F1",
        step_cells(STEPS, CROSSNER),
        by_column,
        notes=(*_NOTES, _STEP_NOTE),
        average=True,
        ours="LANER",
        unequal=_ROWS_SAY,
    ),
    Table(
        "laner-steps-dev",
        "LANER: the same steps on dev, which chose among them, F1",
        step_cells(STEPS, CROSSNER),
        by_column,
        notes=(_STEP_NOTE,),
        average=True,
        value=on_dev,
        unequal=_ROWS_SAY,
    ),
    Table(
        "laner-recipes",
        "LANER: recipes tried with the sources of all domains, F1 on dev",
        step_cells(RECIPES, CROSSNER),
        by_column,
        notes=(_RECIPE_NOTE, _STEP_NOTE),
        average=True,
        value=on_dev,
        unequal=_ROWS_SAY,
        seeds=(1,),
    ),
    Table(
        "laner-ablation",
        "LANER: smaller choices, two targets, F1 on dev",
        step_cells(ABLATIONS, ABLATION_TARGETS, keep_spans=False),
        by_column,
        notes=_NOTES,
        average=True,
        value=on_dev,
        unequal=_ROWS_SAY,
    ),
    Table(
        "laner-carried",
        "LANER beside a plain head that keeps the source's rows, MiniLM, ai, F1 by target sentences",
        carried_cells(),
        by_sentences,
        notes=(
            "all-MiniLM-L6-v2 (uncased, with a character CNN) and one epoch of the source, so that a CPU can run it; "
            "else as in Table 3.",
        ),
        seeds=(1,),
        ours="LANER",
    ),
    Table(
        "laner-dapt",
        "LANER: domain-adaptive pre-training where there is raw text, F1",
        dapt_cells(),
        notes=(
            f"DistilBERT cased, from CoNLL-2003 to {DAPT_SHOTS} labelled sentences of the target. The adapted encoders "
            "stand beside it in NERSHIFT_ENCODERS; `python benchmarks/dapt.py` makes them, each from raw text without "
            "any dev or test sentence of the targets.",
        ),
        average=True,
    ),
]
