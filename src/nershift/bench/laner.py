"""Tables 2-4 and Figures 2-4 of LANER, and domain-adaptive pre-training where there is raw text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nershift.bench.cells import Cell
from nershift.bench.tables import Table
from nershift.config import merge
from nershift.methods.laner import PAPER

SOURCE = ("conll2003_en",)
CROSSNER = ("politics", "science", "music", "literature", "ai")
MIT = {"mit_movie_trivia": "movie", "mit_restaurant": "restaurant"}
AI_TYPES = (
    "field", "task", "product", "algorithm", "researcher", "metrics", "university", "country", "programlang",
    "conference", "person", "organisation", "location", "misc",
)  # fmt: skip
# Both read whole words; the first has no capitals, so a character CNN stands beside it.
ENCODERS: dict[str, dict[str, Any]] = {
    "mpnet": {
        "encoder": {"transformer": {"name": "mpnet"}, "chars": {"use": True, "size": 30, "filters": 50}}
    },
    "distilbert-cased": {"encoder": {"transformer": {"name": "distilbert-cased"}}},
}
# The paper has one rate, 5e-5, for everything. Parts that start from nothing are given ten times that of the encoder.
_PHASE = {"lr": 5e-4, "encoder_lr": 5e-5}
RECIPE: dict[str, Any] = {"pretrain": _PHASE, "train": _PHASE}
_RESTAURANT = {"train": {"encoder_lr": 1e-5}}  # Table 5

HEADS: dict[str, tuple[str, dict[str, Any]]] = {
    "LB+LC": ("laner", {}),
    "w/o LC": ("laner", {"options": {"context": False}}),
    "w/o LB": ("laner", {"options": {"background": False}}),
    "CRF": ("finetune", {"decoder": {"kind": "crf"}}),
    "tagger": ("finetune", {"decoder": {"kind": "softmax"}}),
}
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
SHOTS = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)


def column(target: str) -> str:
    return MIT.get(target, target.removeprefix("crossner_"))


def cell(
    table: str,
    head: str,
    encoder: str,
    target: str,
    seed: int,
    over: Mapping[str, Any] | None = None,
    **more: Any,
) -> Cell:
    """Source first, then the target; the plain heads train with the very settings of LANER."""
    method, config = HEADS[head]
    config = merge(merge(config, ENCODERS[encoder]), RECIPE)
    if method != "laner":
        config = merge(PAPER, config)
    if target == "mit_restaurant":
        config = merge(config, _RESTAURANT)
    placed: dict[str, Any] = {"row": f"{head} ({encoder})", "joint": False} | more
    return Cell(table, method, target, SOURCE, seed, merge(config, over or {}), **placed)


def _targets(columns: Sequence[str]) -> list[str]:
    return [f"crossner_{c}" if c in CROSSNER else next(t for t, n in MIT.items() if n == c) for c in columns]


def _table3(columns: Sequence[str], seeds: Sequence[int]) -> list[Cell]:
    return [
        cell("laner-table3", head, encoder, t, s)
        for encoder in ENCODERS
        for head in HEADS
        for t in _targets(columns)
        for s in seeds
    ]


def _table2(columns: Sequence[str], seeds: Sequence[int]) -> list[Cell]:
    glove = {"encoder": {"words": {"vectors": "glove.100d.txt"}}}
    lstm = merge(glove, {"preset": "crosslm", "train": {"patience": 10}, "pretrain": {"epochs": 10}})
    cells = [
        Cell("laner-table2", "finetune", t, SOURCE, s, lstm, row="LSTM-CRF", joint=False)
        for t in _targets(columns)
        for s in seeds
    ]
    cells += [
        Cell("laner-table2", "crosslm", t, SOURCE, s, glove, row="crosslm")
        for t in _targets([c for c in columns if c in CROSSNER])
        for s in seeds
    ]
    cells += [
        cell("laner-table2", "LB+LC", e, t, s, row=f"LANER ({e})")
        for e in ENCODERS
        for t in _targets(columns)
        for s in seeds
    ]
    return cells


def _table4(seeds: Sequence[int]) -> list[Cell]:
    """No source: the target's labels alone."""
    cells = []
    for encoder in ENCODERS:
        for head, method in (("LB+LC", "laner"), ("tagger", "in_domain")):
            for target in _targets(CROSSNER):
                for seed in seeds:
                    made = cell("laner-table4", head, encoder, target, seed, joint=True)
                    cells.append(Cell(**{**vars(made), "method": method, "sources": ()}))
    return cells


def _figure2(seeds: Sequence[int]) -> list[Cell]:
    return [cell("laner-fig2", h, "mpnet", "crossner_ai", s) for h in ("LB+LC", "tagger") for s in seeds]


def _figure3(seeds: Sequence[int]) -> list[Cell]:
    """100 is the default: leaving it unsaid lets the cell share its result with Table 3."""
    return [
        cell("laner-fig3", "LB+LC", "mpnet", "crossner_ai", s, {} if d == 100 else {"options": {"label_size": d}},
             row=f"d2 = {d}")
        for d in SIZES
        for s in seeds
    ]  # fmt: skip


def _figure4(seeds: Sequence[int]) -> list[Cell]:
    return [
        cell("laner-fig4", h, "mpnet", "crossner_ai", s, shots=n if n < 100 else None)
        for h in ("LB+LC", "tagger")
        for n in SHOTS
        for s in seeds
    ]


ABLATIONS: dict[str, dict[str, Any]] = {
    "LANER": {},
    "one rate, as in the paper": {"pretrain": {"lr": 5e-5}, "train": {"lr": 5e-5}},
    "new types at random": {"options": {"new_rows": "random"}},
    "the target's types alone": {"options": {"labels": "target"}},
    "eq. 7 without background (released)": {"options": {"connect": False}},
    "scheduled sampling 0.2": {"options": {"sampling": 0.2}},
    "beam of 5": {"options": {"beam": 5}},
    "BIOES": {"decoder": {"scheme": "BIOES"}},
}


def _ablations(seeds: Sequence[int]) -> list[Cell]:
    return [
        cell("laner-ablation", "LB+LC", "mpnet", t, s, over, row=row)
        for row, over in ABLATIONS.items()
        for t in _targets(CROSSNER)
        for s in seeds
    ]


# Raw text by target; the encoders are made before the grid: see the note of the table.
DAPT = {
    "bionlp13pc": "biomedical",
    "bionlp13cg": "biomedical",
    "wnut2017": "tweets",
    "mit_movie": "movie-reviews",
}


def _dapt(seeds: Sequence[int]) -> list[Cell]:
    cells = []
    for head in ("LB+LC", "CRF", "tagger"):
        for adapted in (False, True):
            for target, text in DAPT.items():
                name = f"distilbert-cased-{text}" if adapted else "distilbert-cased"
                over = {"encoder": {"transformer": {"name": name}}}
                row = f"{'DAPT ' if adapted else ''}{head}"
                cells += [
                    cell("laner-dapt", head, "distilbert-cased", target, s, over, row=row) for s in seeds
                ]
    return cells


def _printed(
    rows: Mapping[str, Sequence[float]], columns: Sequence[str], shown: str = "{}"
) -> dict[tuple[str, str], float]:
    """Published numbers by row and column, for the columns of a table."""
    return {
        (shown.format(row), c): value
        for row, values in rows.items()
        for c, value in zip(COLUMNS, values, strict=False)
        if c in columns
    }


_ENCODER_NOTE = (
    "Encoders here: all-mpnet-base-v2 (uncased, with a character CNN) and DistilBERT cased; the paper has BERT-base "
    "cased, whose numbers stand below the rows of the first."
)
_RATE_NOTE = (
    "The encoder learns at the paper's 5e-5 (restaurant: 1e-5), parts that start from nothing at 5e-4; the source is "
    "trained for two epochs, as in the public code. CoNLL's short type names are those of CrossNER written out."
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
_MIT_NOTE = "In the public data of movie and restaurant dev equals test; here dev is a fixed tenth of train."
_NOTES = (_ENCODER_NOTE, _RATE_NOTE)

TABLES = [
    Table(
        "laner-table2",
        "LANER Table 2: CrossNER from CoNLL-2003, F1",
        lambda seeds: _table2(CROSSNER, seeds),
        lambda c: (c.name, column(c.target)),
        _printed(PUBLISHED_2, CROSSNER),
        (*_NOTES, _QUOTED, _DAPT_NOTE),
        ours="LANER (mpnet)",
    ),
    Table(
        "laner-table2-mit",
        "LANER Table 2: MIT movie and restaurant from CoNLL-2003, F1",
        lambda seeds: _table2(tuple(MIT.values()), seeds),
        lambda c: (c.name, column(c.target)),
        _printed(PUBLISHED_2, tuple(MIT.values())),
        (*_NOTES, _MIT_NOTE),
        average=False,
    ),
    Table(
        "laner-table3",
        "LANER Table 3: label background and context on CrossNER, F1",
        lambda seeds: _table3(CROSSNER, seeds),
        lambda c: (c.name, column(c.target)),
        _printed(PUBLISHED_3, CROSSNER, "{} (mpnet)"),
        (*_NOTES, _DAPT_NOTE),
        ours="LB+LC (mpnet)",
    ),
    Table(
        "laner-table3-mit",
        "LANER Table 3: label background and context on MIT movie and restaurant, F1",
        lambda seeds: _table3(tuple(MIT.values()), seeds),
        lambda c: (c.name, column(c.target)),
        _printed(PUBLISHED_3, tuple(MIT.values()), "{} (mpnet)"),
        (*_NOTES, _MIT_NOTE),
        average=False,
    ),
    Table(
        "laner-table4",
        "LANER Table 4: in-domain, F1",
        _table4,
        lambda c: (c.name, column(c.target)),
        _printed(PUBLISHED_4, CROSSNER, "{} (mpnet)"),
        _NOTES,
        ours="LB+LC (mpnet)",
    ),
    Table(
        "laner-fig2",
        "LANER Figure 2: F1 by type on ai",
        _figure2,
        lambda c: (c.name, ""),
        notes=(*_NOTES, "The last four types are CoNLL's too."),
        average=False,
        parts=AI_TYPES,
        value=lambda metrics, part: metrics["test"]["by_type"].get(part, {"f1": 0.0})["f1"],
    ),
    Table(
        "laner-fig3",
        "LANER Figure 3: size of a label's vector, ai",
        _figure3,
        lambda c: (c.name, column(c.target)),
        notes=_NOTES,
        average=False,
    ),
    Table(
        "laner-fig4",
        "LANER Figure 4: number of target sentences, ai",
        _figure4,
        lambda c: (c.name, str(c.shots or 100)),
        notes=_NOTES,
        average=False,
    ),
    Table(
        "laner-ablation",
        "LANER: choices beside the paper's, CrossNER, F1",
        _ablations,
        lambda c: (c.name, column(c.target)),
        notes=_NOTES,
        ours="LANER",
    ),
    Table(
        "laner-dapt",
        "LANER: domain-adaptive pre-training where there is raw text, F1",
        _dapt,
        lambda c: (c.name, c.target),
        notes=(
            "DistilBERT cased, from CoNLL-2003 to the target. The adapted encoders stand beside it in "
            "NERSHIFT_ENCODERS; each was made by `nershift dapt --encoder distilbert-cased --raw FILE --exclude TARGET "
            "--out $NERSHIFT_ENCODERS/distilbert-cased-TEXT`, with TEXT biomedical, tweets or movie-reviews.",
        ),
    ),
]
