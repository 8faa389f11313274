"""Tables 3-5 and Figures 3, 4, 6, 7 and 8 of CrossLM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.cells import Cell
from experiments.table import Place, Table, at_epoch, by_parts, by_shots, entry, on_type, published_grid
from nershift.config import merge

SOURCE = ("conll2003_en",)
BIOMEDICAL = ("bionlp13pc", "bionlp13cg")
CBS = ("cbs_scitech", "cbs_scitech_2020")
RAW = (("source", "raw_reuters21578"), ("target", "raw_abc_science"))
SHOTS = (10, 50, 100, 300, 1000, 2000, 3000)
AMOUNTS = (1000, 2000, 4000, 8000, 16000)
EPOCHS = (1, 2, 4, 8, 16, 32)

# The paper trains for 100 epochs: 28,000 steps of four tasks for a run of Table 3, by SGD. Here all rows have 1,500
# steps of batches twice as large, the joint ones by Adam, with which they come further (see the method's
# README.md).
_SHORT = {"batch_size": 64, "updates": 1500}
_ONE = {"optimizer": "rmsprop", "lr": 1e-3, "schedule": "constant"} | _SHORT
_SEVERAL = {"optimizer": "adam", "lr": 3e-3, "schedule": "inverse", "lr_decay": 0.05, "clip": 5.0} | _SHORT
_VECTORS: dict[str, Any] = {
    "encoder": {"words": {"vectors": "glove.100d.txt"}},
    "pretrain": _SEVERAL,
    "train": _SEVERAL,
}
_BASELINE = merge(_VECTORS, {"preset": "crosslm"})
_ALONE = merge(_BASELINE, {"pretrain": _ONE, "train": _ONE})
# The paper does not say how its ELMo was trained.
_LM = {"optimizer": "adam", "lr": 1e-3, "schedule": "constant", "clip": 5.0, "updates": 2000}
_FEATURES = merge(_VECTORS, {"pretrain": _LM, "train": _ONE})


def _joint(**options: Any) -> dict[str, Any]:
    """The language models' losses, sums over words, would drown NER's in so few steps: λ_t = 0.1, chosen on dev."""
    return merge(_VECTORS, {"options": {"lm_weight": 0.1, **options}})


Rows = Mapping[str, tuple[str, Mapping[str, Any]]]  # row: method and settings

# What trains one task alone has RMSprop 1e-3 (§4.1).
SUPERVISED: Rows = {
    "target_only": ("target_only", _ALONE),
    "multitask (NER+LM)": ("crosslm", _joint(variant="shared")),
    "multitask": ("multitask", _BASELINE),
    "finetune": ("finetune", _ALONE),
    "bilm": ("bilm", _FEATURES),
    "co-lm": ("crosslm", _joint(variant="co-lm")),
    "co-ner": ("crosslm", _joint(variant="co-ner")),
    "mix-data": ("crosslm", _joint(variant="mix-data")),
    "crosslm": ("crosslm", _joint()),
}
ALONE = ("target_only", "co-lm")  # rows without a source
UNSUPERVISED: Rows = {
    "source_only": ("source_only", _ALONE),
    "selftrain": ("selftrain", merge(_VECTORS, {"pretrain": _ONE, "train": _ONE})),
    "dann": ("dann", _BASELINE),
    "bilm (source)": ("bilm", merge(_FEATURES, {"options": {"texts": "source"}})),
    "bilm (target)": ("bilm", merge(_FEATURES, {"options": {"texts": "target"}})),
    "bilm": ("bilm", _FEATURES),
    "crosslm": ("crosslm", _joint(min_count=2)),
}
PUBLISHED_3 = {
    "bionlp13pc": (82.59, 81.33, 83.09, 82.55, 82.76, 84.43, 83.87, 83.88, 85.54),
    "bionlp13cg": (76.55, 75.27, 77.73, 76.73, 78.24, 78.60, 78.43, 78.70, 79.86),
}
PUBLISHED_4 = {
    "P": (63.87, 62.56, 65.14, 65.43, 67.78, 67.19, 68.48),
    "R": (71.28, 75.04, 73.84, 70.14, 72.73, 74.93, 79.52),
    "F1": (67.37, 68.24, 69.22, 67.70, 70.17, 70.85, 73.59),
}
TYPES = ("PER", "LOC", "ORG", "MISC")
PUBLISHED_5 = {"source_only": (1501, 469, 941, 134), "crosslm": (1569, 512, 1050, 193)}


def _supervised(rows: Iterable[str], targets: Sequence[str], **more: Any) -> list[Cell]:
    return [
        entry(SUPERVISED[r][0], t, () if r in ALONE else SOURCE, SUPERVISED[r][1], row=r, keep_log=True, **more)
        for r in rows
        for t in targets
    ]


def _unsupervised(row: str, target: str) -> Cell:
    method, config = UNSUPERVISED[row]
    raw = () if row == "source_only" else tuple(r for r in RAW if r[0] == "target" or method in ("bilm", "crosslm"))
    return entry(method, target, SOURCE, config, row=row, raw=raw, joint=row != "source_only")


def _figure6() -> list[Cell]:
    """The language model of the target reads its whole training text, however few of its labels are used."""
    text = {"crosslm": (("target", "bionlp13cg:train"),)}
    return [
        cell
        for row in ("target_only", "crosslm")
        for n in SHOTS
        for cell in _supervised([row], ["bionlp13cg"], shots=n, raw=text.get(row, ()))
    ]


# All rows on the corpus of the paper, source-only and ours on its revision.
_TABLE_4 = [_unsupervised(r, t) for r in UNSUPERVISED for t in CBS if t == CBS[0] or r in PUBLISHED_5]
VARYING = {
    "both vary": ("source", "target"),
    "target varies": ("target",),
    "source varies": ("source",),
}


def _figure8() -> list[Cell]:
    """The most of a varying text is what the smaller of the two has; what does not vary has that much too."""
    cells = []
    for row, varying in VARYING.items():
        for n in AMOUNTS:  # where all is used, the three lines meet in one run
            raw = tuple((d, f"{text}@{n if d in varying else AMOUNTS[-1]}") for d, text in RAW)
            cells.append(entry("crosslm", "cbs_scitech", SOURCE, UNSUPERVISED["crosslm"][1], row=row, raw=raw))
    return cells


def _by_amount(cell: Cell) -> Place:
    return cell.name, str(min(int(text.partition("@")[2]) for _, text in cell.raw))


def _by_measure(metrics: Mapping[str, Any], part: str) -> float:
    kind, _, measure = part.rpartition(" ")
    name = {"P": "precision", "R": "recall", "F1": "f1"}[measure]
    return float(metrics["test_tokens" if kind == "token" else "test"][name])


def _correct_tokens(metrics: Mapping[str, Any], part: str) -> float:
    return float(metrics["test_tokens"]["by_type"].get(part, {}).get("correct", 0)) / 100


def _dev_at_epoch(metrics: Mapping[str, Any], part: str) -> float:
    return float(at_epoch(metrics, int(part))["dev_f1"])


def _loss_at_epoch(metrics: Mapping[str, Any], part: str) -> float:
    task, _, epoch = part.partition(" @ ")
    return float(at_epoch(metrics, int(epoch))[task]) / 100


_PAPER = (
    "U = V = 8, RMSprop 1e-3 for a single task and GloVe 100d as in §4.1; up to 1,500 steps of 64 sentences a task, "
    "and Adam for what trains several tasks, where the paper has 100 epochs of 30 sentences and SGD 0.015."
)
BIO_NOTES = (
    f"{_PAPER} The language models read the training sentences themselves.",
    "The counts of the paper are those of all types of these corpora, though its text names five and three.",
    "bilm is a one-layer bidirectional LSTM language model of 256 units a direction, trained here on the same "
    "sentences, in the place of ELMo.",
)
_NEWS = (
    f"{_PAPER} Selected on the dev split of conll2003_en; nothing of the target but raw_abc_science is seen.",
    "Raw text here: 108,929 sentences of Reuters-21578 and 16,977 of ABC science news. The authors' 377,592 "
    "Reuters and 398,990 CBS sentences are not public.",
)
_EARLIER = "Earlier runs with two optimisers; `crosslm-fair3` has one optimiser, rate and budget for all."
_LANGUAGE_MODEL = "The first 2,000 updates of bilm train its language model; selftrain starts from the source's tagger."
_TASKS = ("source conll2003_en NER", "source conll2003_en LM", "target NER", "target LM")
_BIO_TYPES = {
    "bionlp13pc": ("Cellular_component", "Complex", "Gene_or_gene_product", "Simple_chemical"),
    "bionlp13cg": (
        "Cancer",
        "Cell",
        "Cellular_component",
        "Gene_or_gene_product",
        "Organism",
        "Simple_chemical",
    ),
}

TABLES = [
    Table(
        "crosslm-table3",
        "CrossLM Table 3: supervised domain adaptation from conll2003_en, F1 (earlier, unequal budgets)",
        _supervised(SUPERVISED, BIOMEDICAL),
        published={(r, t): PUBLISHED_3[t][i] for i, r in enumerate(SUPERVISED) for t in BIOMEDICAL},
        notes=BIO_NOTES,
        average=True,
        ours="crosslm",
        unequal=_EARLIER,
    ),
    Table(
        "crosslm-table4",
        "CrossLM Table 4: no target labels, conll2003_en to science and technology news, F1 of entities",
        _TABLE_4,
        published={(r, "cbs_scitech"): PUBLISHED_4["F1"][i] for i, r in enumerate(UNSUPERVISED)},
        notes=_NEWS,
        average=True,
        ours="crosslm",
        unequal=_LANGUAGE_MODEL,
    ),
    Table(
        "crosslm-table4-parts",
        "CrossLM Table 4: precision and recall, and F1 of tagged tokens",
        _TABLE_4,
        published={(r, f"cbs_scitech {k}"): PUBLISHED_4[k][i] for i, r in enumerate(UNSUPERVISED) for k in PUBLISHED_4},
        notes=(
            *_NEWS,
            "The paper's numbers of entities in this corpus are those of tagged tokens, hence the last column.",
        ),
        parts=("P", "R", "F1", "token F1"),
        value=_by_measure,
        unequal=_LANGUAGE_MODEL,
    ),
    Table(
        "crosslm-table5",
        "CrossLM Table 5: correctly tagged tokens by type, cbs_scitech",
        [_unsupervised(r, "cbs_scitech") for r in PUBLISHED_5],
        by_parts,
        published_grid(PUBLISHED_5, TYPES),
        _NEWS,
        parts=TYPES,
        value=_correct_tokens,
    ),
    Table(
        "crosslm-fig3",
        "CrossLM Figure 3: dev F1 against epochs, bionlp13cg",
        _supervised(["target_only", "finetune", "multitask", "bilm", "crosslm"], ["bionlp13cg"]),
        by_parts,
        notes=BIO_NOTES,
        parts=tuple(map(str, EPOCHS)),
        value=_dev_at_epoch,
        unequal=_EARLIER,
    ),
    Table(
        "crosslm-fig4",
        "CrossLM Figure 4: training losses of the four tasks against epochs",
        _supervised(["crosslm"], BIOMEDICAL),
        lambda c: (c.target, ""),
        notes=(*BIO_NOTES, "Losses a sentence, the language models' by sampled softmax (the paper shows scores)."),
        parts=tuple(f"{task} @ {epoch}" for task in _TASKS for epoch in (1, 4, 10)),
        value=_loss_at_epoch,
    ),
    Table(
        "crosslm-fig6",
        "CrossLM Figure 6: F1 against the number of labelled target sentences, bionlp13cg",
        _figure6(),
        by_shots,
        notes=BIO_NOTES,
        unequal=_EARLIER,
    ),
    *(
        Table(
            f"crosslm-fig7-{target}",
            f"CrossLM Figure 7: F1 by type, {target}",
            _supervised(["target_only", "finetune", "multitask", "crosslm"], [target]),
            by_parts,
            notes=BIO_NOTES,
            parts=types,
            value=on_type,
            unequal=_EARLIER,
        )
        for target, types in _BIO_TYPES.items()
    ),
    Table(
        "crosslm-fig8",
        "CrossLM Figure 8: F1 against the number of raw sentences, cbs_scitech",
        _figure8(),
        _by_amount,
        notes=_NEWS,
    ),
]
