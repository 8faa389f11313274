"""How LANER and the plain heads beside it are trained in its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.cells import Cell
from experiments.table import Place, entry
from nershift.config import merge

SOURCE = ("conll2003_en",)
CROSSNER = ("politics", "science", "music", "literature", "ai")
MIT = {"mit_movie_trivia": "movie", "mit_restaurant": "restaurant"}
# Both read whole words; the first has no capitals, so a character CNN stands beside it.
_CHARS = {"use": True, "size": 30, "filters": 50}
ENCODERS: dict[str, dict[str, Any]] = {
    "mpnet": {"encoder": {"transformer": {"name": "mpnet"}, "chars": _CHARS}},
    "distilbert-cased": {"encoder": {"transformer": {"name": "distilbert-cased"}}},
}
BOTH = {"encoder": {"transformer": {"name": "mpnet+distilbert-cased"}, "chars": _CHARS}}
# The paper has one learning rate, 5e-5, for everything at all times. Here rates are those of the preset `tuned`, and
# the number of epochs is fixed in advance: fewer steps.
_PHASE: dict[str, Any] = {
    "lr": 5e-4, "encoder_lr": 5e-5, "schedule": "linear", "warmup": 0.1, "clip": 1.0, "precision": "bf16",
}  # fmt: skip
RECIPE: dict[str, Any] = {
    "pretrain": merge(_PHASE, {"batch_size": 64, "epochs": 2}),
    "train": merge(_PHASE, {"batch_size": 8, "epochs": 25, "patience": 0}),
}
_PAPER_PHASE: dict[str, Any] = {
    "lr": 5e-5, "schedule": "constant", "warmup": 0.0, "clip": 0.0, "precision": "bf16", "batch_size": 16,
}  # fmt: skip
PAPER_RECIPE: dict[str, Any] = {
    "pretrain": _PAPER_PHASE,
    "train": merge(_PAPER_PHASE, {"epochs": 100, "patience": 16}),
}
_LARGE = {"train": {"batch_size": 32, "epochs": 4}}  # for targets of thousands of sentences

# What LANER's preset sets and the plain heads must share.
_OPTIMISER: dict[str, Any] = {"optimizer": "adam", "weight_decay": 0.0}
_PLAIN: dict[str, Any] = {
    "encoder": {"kind": "transformer", "chars": {"use": False}, "dropout": 0.0},
    "head": {"scheme": "BIO"},
    "pretrain": _OPTIMISER,
    "train": _OPTIMISER,
}

_CHECK = {"check": True}  # the result says where decoding step by step would have differed
HEADS: dict[str, tuple[str, dict[str, Any]]] = {
    "LB+LC": ("laner", {"options": _CHECK}),
    "w/o LC": ("laner", {"options": {"context": False, **_CHECK}}),
    "w/o LB": ("laner", {"options": {"background": False, **_CHECK}}),
    "CRF": ("finetune", {"head": {"kind": "crf"}}),
    "tagger": ("finetune", {"head": {"kind": "softmax"}}),
}
# The plain heads with the rows of CoNLL's types carried over, as the label-aware head has them.
CARRIED: dict[str, tuple[str, dict[str, Any]]] = {
    f"{head}, carried": (HEADS[head][0], merge(HEADS[head][1], {"head": {"from_source": True}}))
    for head in ("CRF", "tagger")
}


def column(target: str) -> str:
    return MIT.get(target, target.removeprefix("crossner_"))


def by_column(c: Cell) -> Place:
    return c.name, column(c.target)


def by_sentences(c: Cell) -> Place:
    """All of CrossNER's ai are 100."""
    return c.name, str(c.shots or 100)


def cell(head: str, encoder: str, target: str, over: Mapping[str, Any] | None = None, **more: Any) -> Cell:
    """Source first, then the target; the plain heads train with the very settings of LANER."""
    method, config = (HEADS | CARRIED)[head]
    config = merge(merge(config, ENCODERS[encoder]), RECIPE)
    if method != "laner":
        config = merge(_PLAIN, config)
    if target in MIT:
        config = merge(config, _LARGE)
    placed: dict[str, Any] = {"row": f"{head} ({encoder})", "joint": False, "sources": SOURCE} | more
    return entry(method, target, config=merge(config, over or {}), **placed)


def targets_of(columns: Sequence[str]) -> list[str]:
    return [f"crossner_{c}" if c in CROSSNER else next(t for t, n in MIT.items() if n == c) for c in columns]
