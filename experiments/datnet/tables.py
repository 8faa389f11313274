"""Tables 2-6 and Figure 2 of DATNet. The sweeps of α and ε are Tables 5 and 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.cells import Cell
from experiments.table import Place, Table, by_ratio, entry, published_grid
from nershift.config import merge

SOURCE = ("conll2003_en",)
LANGUAGES = ("conll2002_es", "conll2002_nl")
SHOTS = (10, 50, 100, 200, 500, 1000)
RATIOS = (0.05, 0.1, 0.2, 0.4, 0.6, None)  # None: all labels
FEWER = (0.1, 0.2, 0.4, 0.6)
ALPHAS = tuple(round(0.1 + 0.05 * i, 2) for i in range(15))
EPSILONS = (1.0, 3.0, 5.0, 7.0, 9.0)
SEEDS = (1, 2, 3, 4, 5)

# Every step has a batch of the source and one of the target, and the number of steps grows with the target. How
# long the paper trained it does not say. Batches are larger than its 16 or so and the rate grows with them: on a
# GPU a step takes its time by the length of sentences and hardly by their number.
_STEPS = {"conll2002_es": 1500, "conll2002_nl": 1500}  # at all labels
_STEPS_ENGLISH = 4000  # 1,000 are too few (table datnet-full)
_GLOVE = {"vectors": "glove.100d.txt"}
# Rows of one sub-word table for all languages, cut to its first axes (table datnet-axes); case is kept, as the table
# keeps it. Source and target both have them, which on dev is better than English GloVe for the source
# (benchmarks/results/datnet-choices.json).
AXES = 256


def aligned_words(axes: int = AXES) -> dict[str, Any]:
    return {"vectors": f"multilingual.{axes}d.txt.gz", "lower": False}


def schedule(target: str, shots: int | None, ratio: float | None, fixed: bool) -> dict[str, Any]:
    """``fixed``: without dev, so that the last epoch is kept."""
    if shots is not None:
        steps, batch, lr = (400 if shots <= 100 else 600), 32, 3e-3
    else:
        whole = _STEPS.get(target, _STEPS_ENGLISH)
        steps = round(whole * min(1.0, 0.4 + (ratio or 1.0)) / 100) * 100
        batch, lr = (128, 2e-3) if target in _STEPS and (ratio or 1.0) > 0.2 else (64, 1.5e-3)
    epoch = 50 if steps <= 600 else 100
    patience = 0 if fixed else 5 if steps <= 1500 else 10
    train = {"batch_size": batch, "lr": lr, "epochs": steps // epoch, "patience": patience}
    return {"train": train, "options": {"epoch_steps": epoch, "sampling_exponent": 0.0}}


# ε of all perturbations. The paper's 5, the method's default, is too strong for these vectors (tables datnet-epsilon
# and datnet-full).
EPSILON = 1.0
PRINTED_EPSILON = 5.0


def options_of(row: str) -> dict[str, Any]:
    """The options that a row of Table 4 stands for, from its own words."""
    variant = "P" if "P-T" in row else "F" if "F-T" in row else "base"
    options: dict[str, Any] = {"variant": variant, "adversarial_training": "AT" in row.split()}
    if variant != "base":
        options["adversary"] = {"(no AD)": "none", "(AD)": "ad", "(GRAD)": "grad"}[row[row.index("(") :]]
    return options


def cell(
    target: str,
    row: str,
    over: Mapping[str, Any] | None = None,
    *,
    label: str = "",
    aligned: bool = True,
    axes: int = AXES,
    epsilon: float = EPSILON,
    **more: Any,
) -> Cell:
    """``row`` as in Table 4; ``label`` is what to call it; not ``aligned``: GloVe for the source of a language."""
    options = options_of(row)
    if options["adversarial_training"] and epsilon != PRINTED_EPSILON:
        options |= dict.fromkeys(("epsilon_source", "epsilon_target", "epsilon_chars"), epsilon)
    words = aligned_words(axes) if target in LANGUAGES else _GLOVE
    if target in LANGUAGES and options["variant"] != "base" and not aligned:
        options["source_words"] = {"lower": True, **_GLOVE}
    shots, ratio = more.get("shots"), more.get("ratio")
    if shots is None and ratio is None and row in NAMES:  # Table 2 shows it, and others share the result
        options["test_oracle"] = True
    settings = schedule(target, shots, ratio, bool(more.get("train_on_dev")))
    config = merge(settings, {"encoder": {"words": words}, "options": options})
    sources = () if options["variant"] == "base" else SOURCE
    return entry("datnet", target, sources, merge(config, over or {}), row=label or row, **more)


BASE, DAT_P, DAT_F = "Base", "+ AT + P-T (GRAD)", "+ AT + F-T (GRAD)"
NAMES = {BASE: "Base", DAT_P: "DATNet-P", DAT_F: "DATNet-F"}

_PLACES_2 = ("conll2002_es", "conll2002_nl", "wnut2016 (train + dev)", "wnut2016", "wnut2017")
_PRINTED_2 = {  # means over ten runs
    "Base": (85.35, 85.24, 44.37, None, 34.67),
    "DATNet-P": (87.89, 88.09, 50.41, None, 40.52),
    "DATNet-F": (86.79, 87.52, 53.03, None, 42.32),
}


def full_cell(place: str, row: str, **more: Any) -> Cell:
    """With all labels; ``place`` as :func:`by_full_place` has it."""
    return cell(place.split()[0], row, train_on_dev="dev" in place, **more)


def by_full_place(c: Cell) -> Place:
    return c.name, f"{c.target} (train + dev)" if c.train_on_dev else c.target


def by_few(c: Cell) -> Place:
    return c.name, f"{c.target} {c.shots}"


ROWS_3 = {
    "Base": "Base",
    "+ AT": "+ AT",
    "+ P-Transfer": "+ P-T (GRAD)",
    "+ F-Transfer": "+ F-T (GRAD)",
    "DATNet-P": DAT_P,
    "DATNet-F": DAT_F,
}
_PRINTED_3 = {
    "conll2002_es": (
        (21.53, 42.18, 48.35, 63.66, 68.83, 76.69),
        (19.23, 41.01, 50.46, 64.83, 70.85, 77.91),
        (29.78, 61.09, 64.78, 66.54, 72.94, 78.49),
        (39.72, 63.00, 63.36, 66.39, 72.88, 78.04),
        (39.52, 62.57, 64.05, 68.95, 75.19, 79.46),
        (44.52, 63.89, 66.67, 68.35, 74.24, 78.56),
    ),
    "wnut2016": (
        (3.80, 14.07, 17.99, 26.20, 31.78, 36.99),
        (4.34, 16.87, 18.43, 26.32, 35.68, 41.69),
        (7.71, 16.17, 20.43, 29.20, 34.90, 41.20),
        (15.26, 20.04, 26.60, 32.22, 38.35, 44.81),
        (9.94, 17.09, 25.39, 30.71, 36.05, 42.30),
        (17.14, 22.59, 28.41, 32.48, 39.20, 45.25),
    ),
}


PUBLISHED_3 = {
    place: value
    for target, rows in _PRINTED_3.items()
    for place, value in published_grid(dict(zip(ROWS_3, rows, strict=True)), [f"{target} {n}" for n in SHOTS]).items()
}

ROWS_4 = (
    "Base", "+ P-T (no AD)", "+ F-T (no AD)", "+ P-T (AD)", "+ F-T (AD)", "+ P-T (GRAD)", "+ F-T (GRAD)",
    "+ AT", "+ AT + P-T (no AD)", "+ AT + F-T (no AD)", "+ AT + P-T (AD)", "+ AT + F-T (AD)", DAT_P, DAT_F,
)  # fmt: skip
_PRINTED_4 = {  # the best of ten runs, by Table 2
    "conll2002_es": (
        85.35, 86.15, 85.46, 86.32, 85.58, 86.93, 85.91, 86.12, 85.90, 86.17, 87.19, 86.38, 88.16, 87.04,
    ),
    "wnut2016 (train + dev)": (
        None, 47.66, 49.79, 48.14, 50.48, 48.91, 51.31, None, None, 50.93, 49.41, 51.84, 50.85, 53.43,
    ),
}  # fmt: skip


_PRINTED_5 = {
    0.1: (78.37, 78.63, 78.70, 78.32, 77.96, 77.92, 77.88, 77.78, 77.85, 77.90, 77.65, 77.57, 77.38, 77.49, 77.29),
    0.2: (80.99, 81.71, 82.18, 81.57, 81.53, 81.55, 81.44, 81.25, 81.32, 81.16, 81.02, 81.16, 80.63, 80.79, 80.54),
    0.4: (83.76, 83.73, 84.18, 84.48, 84.26, 84.12, 83.54, 83.40, 83.52, 84.18, 83.42, 83.47, 83.28, 83.33, 83.19),
    0.6: (85.18, 85.24, 85.85, 85.68, 85.84, 86.10, 85.71, 85.74, 85.42, 85.60, 85.20, 85.40, 85.26, 85.24, 84.98),
}  # fmt: skip
_PRINTED_6 = {
    0.1: (75.90, 76.23, 77.38, 77.77, 78.13),
    0.2: (81.54, 81.65, 81.32, 81.81, 81.68),
    0.4: (83.62, 83.83, 83.43, 83.99, 83.40),
    0.6: (84.44, 84.47, 84.72, 84.04, 84.05),
}


def _sweep(name: str, values: Sequence[float], default: float) -> list[Cell]:
    # The default stays unsaid, so that the cell shares its result with the other sweep and Figure 2.
    over: dict[float, dict[str, Any]] = {x: {} if x == default else {"options": {name: x}} for x in values}
    return [cell("conll2002_es", DAT_P, over[x], label=f"{x:g}", ratio=r) for x in values for r in FEWER]


def _printed_sweep(rows: Mapping[float, Sequence[float]], values: Sequence[float]) -> dict[Place, float]:
    return {(f"{x:g}", f"{r:g}"): value for r, row in rows.items() for x, value in zip(values, row, strict=True)}


_SUBSTITUTES = (
    "Words are GloVe 100d within English; with a Spanish or Dutch target, on both sides, means of rows of a "
    f"multilingual sub-word table, cut to {AXES} axes. The paper had word2vec vectors of 50 dimensions, trained on the "
    "Wikipedia of each language.",
    "Adam with the paper's decay; 1,500 steps of 128 sentences of each side for a whole language, 4,000 of 64 for "
    "WNUT, 400 to 600 of 32 for up to 1,000 sentences; α and γ of the paper, ε = 1 (5 there).",
    "The source is conll2003_en. Subsets are drawn at random by seed, and nested; the paper's public code takes the "
    "first sentences of the file and keeps the epoch that is best on test.",
)
_WNUT = (
    "wnut2016 (train + dev) is the paper's protocol: both are trained on, for a fixed number of epochs. The column "
    "wnut2016 trains on train alone and selects on dev."
)


def _with_oracle(metrics: Mapping[str, Any], part: str) -> float:
    return float(metrics["phases"]["train"]["test_oracle_f1"] if part else metrics["test"]["f1"])


TABLES = [
    Table(
        "datnet-table2",
        "DATNet Table 2: full data, F1",
        [full_cell(place, row, label=name) for row, name in NAMES.items() for place in _PLACES_2],
        by_full_place,
        published_grid(_PRINTED_2, _PLACES_2),
        (
            *_SUBSTITUTES,
            _WNUT,
            "test-oracle: the best epoch chosen with a look at test, as others report; for comparison only.",
        ),
        ours="DATNet-F",
        seeds=SEEDS,
        parts=("", "(test-oracle)"),
        value=_with_oracle,
        best=True,
    ),
    Table(
        "datnet-table3",
        "DATNet Table 3: few target sentences, F1",
        [cell(t, row, label=name, shots=n) for name, row in ROWS_3.items() for t in _PRINTED_3 for n in SHOTS],
        by_few,
        PUBLISHED_3,
        _SUBSTITUTES,
        ours="DATNet-F",
        seeds=SEEDS,
    ),
    Table(
        "datnet-table4",
        "DATNet Table 4: parts of the model, F1",
        [full_cell(place, row) for row in ROWS_4 for place in _PRINTED_4],
        by_full_place,
        published_grid(dict(zip(ROWS_4, zip(*_PRINTED_4.values(), strict=True), strict=True)), list(_PRINTED_4)),
        (
            *_SUBSTITUTES,
            _WNUT,
            "The paper's figures are best runs where Table 2 has them; three of them are not legible in our copy.",
        ),
        ours=DAT_F,
        best=True,
    ),
    Table(
        "datnet-table5",
        "DATNet Table 5: α of GRAD on Spanish, F1 by share of target labels",
        _sweep("alpha", ALPHAS, 0.25),
        by_ratio,
        _printed_sweep(_PRINTED_5, ALPHAS),
        (*_SUBSTITUTES, "The paper does not name the variant; P here."),
    ),
    Table(
        "datnet-table6",
        "DATNet Table 6: ε of target words on Spanish, F1 by share of target labels",
        _sweep("epsilon_target", EPSILONS, 1.0),
        by_ratio,
        _printed_sweep(_PRINTED_6, EPSILONS),
        (*_SUBSTITUTES, "The paper does not name the variant; P here."),
    ),
    Table(
        "datnet-fig2",
        "DATNet Figure 2: F1 by share of target labels",
        [
            cell(t, row, label=f"{t}: {name}", ratio=r)
            for t in _PRINTED_3
            for name, row in ROWS_3.items()
            for r in RATIOS
        ],
        by_ratio,
        notes=_SUBSTITUTES,
        unequal="Rows are of several targets: compare those of one.",
    ),
]
