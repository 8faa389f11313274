"""What else was tried with LANER, step by step, and domain-adaptive pre-training where there is raw text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.cells import Cell
from experiments.laner.recipe import BOTH, CROSSNER, PAPER_RECIPE, SOURCE, cell, targets_of
from nershift.config import merge

# Beside CoNLL, labelled sentences of other domains: Wikipedia's, and the training splits of all five targets.
WIKIPEDIA = (*SOURCE, "wikigold")
DOMAINS = (*WIKIPEDIA, *(f"crossner_{c}" for c in CROSSNER))
_MORE = {"pretrain": {"min_source_share": 0.1}}  # else the small sources would hardly be seen
_LONGER = {"train": {"epochs": 50}}  # better on dev than the 25 of the tables (ABLATIONS)
_ALL = merge(_MORE, _LONGER)
# By dev, of what RECIPES tries: the sources twice as long, and entities of the target that give way to others.
_BEST = merge(_ALL, {"pretrain": {"epochs": 4}, "train": {"mention_replacement": 0.3}})
_AVERAGED = {"train": {"model_soup": 3}}
_NAMES = {"options": {"new_rows": "names"}}
Step = tuple[str, Mapping[str, Any], tuple[str, ...]]  # head, settings, sources

# From the plain head to the best there is, a step a row; every target.
STEPS: dict[str, Step] = {
    "tagger": ("tagger", {}, SOURCE),
    "tagger, carried": ("tagger, carried", {}, SOURCE),
    "LANER": ("LB+LC", {}, SOURCE),
    "tagger, carried, 50 epochs": ("tagger, carried", _LONGER, SOURCE),
    "LANER, 50 epochs": ("LB+LC", _LONGER, SOURCE),
    "tagger, Wikipedia": ("tagger", {}, WIKIPEDIA),
    "LANER, Wikipedia": ("LB+LC", {}, WIKIPEDIA),
    "tagger, all domains": ("tagger", _MORE, DOMAINS),
    "LANER, all domains": ("LB+LC", _MORE, DOMAINS),
    "tagger, all domains, both encoders": ("tagger", merge(BOTH, _MORE), DOMAINS),
    "LANER, all domains, both encoders": ("LB+LC", merge(BOTH, _MORE), DOMAINS),
    "tagger, carried, all domains, 50 epochs": ("tagger, carried", _ALL, DOMAINS),
    "LANER, all domains, 50 epochs": ("LB+LC", _ALL, DOMAINS),
    "LANER, all domains, both encoders, 50 epochs": ("LB+LC", merge(BOTH, _ALL), DOMAINS),
    "tagger, carried, best recipe": ("tagger, carried", _BEST, DOMAINS),
    "LANER, best recipe": ("LB+LC", _BEST, DOMAINS),
    "LANER, best recipe, averaged": ("LB+LC", merge(_BEST, _AVERAGED), DOMAINS),
}
# What else could take LANER with all domains further, each beside its second row; every target.
RECIPES: dict[str, Step] = {
    "25 epochs": ("LB+LC", _MORE, DOMAINS),
    "50 epochs": ("LB+LC", _ALL, DOMAINS),
    "100 epochs": ("LB+LC", merge(_ALL, {"train": {"epochs": 100}}), DOMAINS),
    "encoder at 1e-4": ("LB+LC", merge(_ALL, {"train": {"encoder_lr": 1e-4}}), DOMAINS),
    "four epochs of the sources": ("LB+LC", merge(_ALL, {"pretrain": {"epochs": 4}}), DOMAINS),
    "perturbed": ("LB+LC", merge(_ALL, {"train": {"fgm_epsilon": 1.0}}), DOMAINS),
    "entities swapped": ("LB+LC", merge(_ALL, {"train": {"mention_replacement": 0.3}}), DOMAINS),
    "three trainings averaged": ("LB+LC", merge(_ALL, _AVERAGED), DOMAINS),
    "four epochs of the sources, swapped": ("LB+LC", _BEST, DOMAINS),
    "four epochs of the sources, swapped, averaged": ("LB+LC", merge(_BEST, _AVERAGED), DOMAINS),
}
# Smaller choices, each beside the LANER of the table above; two targets.
ABLATIONS: dict[str, Step] = {
    "LANER": ("LB+LC", {}, SOURCE),
    "the paper's recipe": ("LB+LC", PAPER_RECIPE, SOURCE),
    "one rate for all parts": ("LB+LC", {"pretrain": {"lr": 5e-5}, "train": {"lr": 5e-5}}, SOURCE),
    "encoder at 2e-5": ("LB+LC", {"train": {"encoder_lr": 2e-5}}, SOURCE),
    "encoder at 1e-4": ("LB+LC", {"train": {"encoder_lr": 1e-4}}, SOURCE),
    "batch 16": ("LB+LC", {"train": {"batch_size": 16}}, SOURCE),
    "50 epochs": ("LB+LC", _LONGER, SOURCE),
    "dropout 0.2 on the states": ("LB+LC", {"encoder": {"dropout": 0.2}}, SOURCE),
    "no characters": ("LB+LC", {"encoder": {"chars": {"use": False}}}, SOURCE),
    "new types from their names": ("LB+LC", _NAMES, SOURCE),
    "new types at random": ("LB+LC", {"options": {"new_rows": "random"}}, SOURCE),
    "the target's types alone": ("LB+LC", {"options": {"labels": "target"}}, SOURCE),
    "eq. 7 without background (released)": ("LB+LC", {"options": {"connect": False}}, SOURCE),
    "scheduled sampling 0.2": ("LB+LC", {"options": {"sampling": 0.2}}, SOURCE),
    "BIOES": ("LB+LC", {"head": {"scheme": "BIOES"}}, SOURCE),
    "both encoders": ("LB+LC", BOTH, SOURCE),
    "CRF": ("CRF", {}, SOURCE),
    "CRF, all domains": ("CRF", _MORE, DOMAINS),
}
ABLATION_TARGETS = ("music", "ai")


def step_cells(steps: Mapping[str, Step], columns: Sequence[str], keep_spans: bool = True) -> list[Cell]:
    return [
        cell(head, "mpnet", t, over, row=row, sources=sources, disjoint=len(sources) > 1, keep_spans=keep_spans)
        for row, (head, over, sources) in steps.items()
        for t in targets_of(columns)
    ]


# Raw text by target; the encoders are made before the grid: see the note of the table.
DAPT = {
    "bionlp13pc": "biomedical",
    "bionlp13cg": "biomedical",
    "wnut2017": "tweets",
    "mit_movie": "movie-reviews",
}


DAPT_SHOTS = 200  # labelled sentences: as many as CrossNER's targets have


def dapt_cells() -> list[Cell]:
    cells = []
    for head in ("LB+LC", "CRF", "tagger"):
        for adapted in (False, True):
            for target, text in DAPT.items():
                name = f"distilbert-cased-{text}" if adapted else "distilbert-cased"
                over = {"encoder": {"transformer": {"name": name}}}
                row = f"{'DAPT ' if adapted else ''}{head}"
                cells.append(cell(head, "distilbert-cased", target, over, row=row, shots=DAPT_SHOTS))
    return cells


# Is it the head that pays with few sentences, or that its rows are carried over? Of a size that a CPU can run.
_SMALL: dict[str, Any] = {
    "encoder": {"transformer": {"name": "minilm"}},
    "pretrain": {"precision": "fp32", "updates": 220},
    "train": {"precision": "fp32"},
}
_SMALL_SHOTS = (20, 50, None)


def carried_cells() -> list[Cell]:
    return [
        cell(head, "mpnet", "crossner_ai", _SMALL, row=row, shots=n)
        for row, head in (("tagger", "tagger"), ("tagger, carried", "tagger, carried"), ("LANER", "LB+LC"))
        for n in _SMALL_SHOTS
    ]
