"""The plain CNN-BiGRU-CRF on the targets' own labels."""

from __future__ import annotations

from collections.abc import Sequence

from nershift.bench.cells import Cell
from nershift.bench.tables import Table
from nershift.config import merge

VECTORS = {"encoder": {"words": {"vectors": "glove.100d.txt", "drop": 0.05}, "input_dropout": 0.2}}
TARGET_PHASE = {"epochs": 20, "patience": 5, "lr": 2e-3}


def _in_domain(seeds: Sequence[int]) -> list[Cell]:
    targets = ("conll2003_en", "bionlp13pc", "mit_movie", "mit_restaurant")
    config = merge(VECTORS, {"train": TARGET_PHASE})
    return [Cell("in-domain", "in_domain", t, (), s, config) for t in targets for s in seeds]


TABLES = [
    Table(
        "in-domain",
        "In-domain F1 of CNN-BiGRU-CRF with 100-dimensional GloVe vectors",
        _in_domain,
        lambda cell: (cell.name, cell.target),
        published={
            ("in_domain", "conll2003_en"): 91.2,
            ("in_domain", "bionlp13pc"): 82.11,
            ("in_domain", "mit_movie"): 82.48,
            ("in_domain", "mit_restaurant"): 74.86,
        },
        notes=(
            "Published: NCRF++'s average for conll2003_en (CharCNN + BiLSTM + CRF), MetaNER's In-Domain column for the "
            "others (GloVe 300d there, 100d here).",
        ),
        average=False,
    )
]
