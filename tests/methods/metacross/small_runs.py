"""Settings and corpora for runs of MetaCross that take a second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nershift.data.corpus import Corpus

MakeCorpus = Callable[..., Corpus]


def small(encoder: Path) -> dict[str, Any]:
    transformer = {"name": str(encoder), "freeze_layers": 1, "max_subwords": 24, "overlap": 8}
    return {
        "device": "cpu",
        "encoder": {
            "kind": "transformer",
            "transformer": transformer,
            "chars": {"use": False},
            "dropout": 0.0,
        },
        "pretrain": {"batch_size": 6, "max_steps": 4, "epochs": 2, "lr": 0.01},
        "train": {"batch_size": 8, "epochs": 1, "lr": 0.01},
        "options": {"inner_lr": 0.01, "adapt_lr": 0.01},
    }


def make_source(make_corpus: MakeCorpus) -> Corpus:
    return make_corpus("news", train=30, dev=8, test=0)


def make_target(make_corpus: MakeCorpus) -> Corpus:
    return Corpus("ward", make_corpus("clinic", train=10, dev=6, test=8).mapped({"drug": "O"}).splits)
