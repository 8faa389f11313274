"""Presets: our own recipe, and those of two papers, whose methods all train the same model in the same way.

A preset is a block of settings, nested as in ``config.yaml``, that overrides the defaults; the user's settings override
the preset. ``Method.presets`` maps names to presets. Every method has ``default``, the best we know, which is used
unless ``preset: NAME`` asks for another, and ``paper``.
"""

from __future__ import annotations

from typing import Any

from nershift.config import TrainConfig, merge

SOURCE_UPDATES = 1500
# Our recipe for few labels, without word vectors: chosen on the dev splits of crossner_ai, mit_restaurant, bionlp13pc
# and conll2002_es (docs/findings.md says how). Its length on the target follows the labels.
_TRAINING: dict[str, Any] = {
    "optimizer": "adam",
    "lr": 2e-3,
    "weight_decay": 1e-6,
    "clip": 5.0,
    "schedule": "constant",
    "batch_size": 0,
}
DEFAULT: dict[str, Any] = {
    "encoder": {
        "kind": "recurrent",
        "words": {"size": 300, "train": True, "word_dropout": 0.3},  # words that no label shows are what decides
        "chars": {"use": True, "size": 30, "widths": [2, 3, 4, 5], "filters": 100},
        "recurrent": {"cell": "gru", "size": 128, "layers": 1},
        "input_dropout": 0.2,
        "dropout": 0.5,
    },
    "head": {"kind": "crf", "scheme": "BIOES"},
    "pretrain": merge(_TRAINING, {"updates": SOURCE_UPDATES}),
    "train": merge(_TRAINING, {"average_last": 0.3}),
}
# An encoder that comes from the sources moves more slowly: at the full rate, fifty tweets with hardly an entity make it
# forget what the sources taught (wnut2017, dev F1 4.5; at this rate 17.1), and nothing is gained elsewhere.
TWO_STAGES: dict[str, Any] = merge(DEFAULT, {"train": {"encoder_lr": 5e-4}})
# Methods that learn sources and target in one stage get as many updates as others have in two.
JOINT: dict[str, Any] = merge(
    DEFAULT, {"train": {"min_updates": SOURCE_UPDATES + TrainConfig().min_updates, "passes": 2}}
)
# What changes for an encoder that is pretrained on text: new layers learn ten times as fast as the encoder.
_FINE_TUNING: dict[str, Any] = {
    "optimizer": "adamw",
    "lr": 5e-4,
    "encoder_lr": 5e-5,
    "weight_decay": 0.01,
    "clip": 1.0,
    "schedule": "linear",
    "warmup": 0.1,
}
DEFAULT_BY_ENCODER: dict[str, dict[str, Any]] = {
    "transformer": {
        "encoder": {"chars": {"use": False}, "input_dropout": 0.0, "dropout": 0.1},
        "pretrain": merge(_FINE_TUNING, {"updates": 600}),
        "train": merge(_FINE_TUNING, {"min_updates": 500, "passes": 10}),
    }
}
JOINT_BY_ENCODER = {
    "transformer": merge(DEFAULT_BY_ENCODER["transformer"], {"train": {"min_updates": 1100, "passes": 2}})
}

# MetaNER §5.1.2. Of its schedule the paper only says "decay rate 0.09", read here as ρ of lr / (1 + ρ · epoch). Batch
# size and number of epochs are not in the paper.
_METANER_TRAINING: dict[str, Any] = {
    "optimizer": "adam",
    "lr": 1e-3,
    "weight_decay": 1e-6,
    "clip": 5.0,
    "schedule": "inverse",
    "lr_decay": 0.09,
    "batch_size": 32,
    "epochs": 30,
}

METANER: dict[str, Any] = {
    "encoder": {
        "kind": "recurrent",
        "words": {"size": 300, "train": True},
        "chars": {"use": True, "size": 100, "widths": [2, 3, 4, 5], "filters": 100},
        "recurrent": {"cell": "gru", "size": 128, "layers": 1},
        "dropout": 0.5,
    },
    "head": {"kind": "crf", "scheme": "BIOES", "new_rows": "random"},
    "pretrain": _METANER_TRAINING,
    "train": _METANER_TRAINING,
}

# CrossLM §4.1. It builds on NCRF++ and changes its batch size; where the paper is silent, NCRF++'s defaults apply.
_CROSSLM_TRAINING: dict[str, Any] = {
    "optimizer": "sgd",
    "lr": 0.015,
    "momentum": 0.0,
    "weight_decay": 1e-8,
    "clip": 0.0,
    "schedule": "inverse",
    "lr_decay": 0.05,
    "batch_size": 30,
    "epochs": 100,
}

CROSSLM: dict[str, Any] = {
    "encoder": {
        "kind": "recurrent",
        "words": {"size": 100, "train": True, "lower": False},
        "chars": {"use": True, "size": 30, "widths": [3], "filters": 50},
        "recurrent": {"cell": "lstm", "size": 100, "layers": 1},
        "input_dropout": 0.5,
        "dropout": 0.5,
    },
    "head": {"kind": "crf", "scheme": "BIOES", "new_rows": "random"},
    "pretrain": _CROSSLM_TRAINING,
    "train": _CROSSLM_TRAINING,
}
# CrossLM §4.1: "RMSprop with a learning rate of 0.001 is used for our single task model."
SINGLE_TASK: dict[str, Any] = {"optimizer": "rmsprop", "lr": 1e-3, "schedule": "constant"}

# The model of CrossLM, trained as ours: with Adam it beats the paper's SGD and RMSprop on dev (crosslm-rates).
CROSSLM_DEFAULT = merge(
    CROSSLM, {block: merge(_TRAINING, {"epochs": 0, "lr": 1e-3}) for block in ("pretrain", "train")}
)

# Of the baselines that both papers compare with.
PRESETS = {"default": DEFAULT, "paper": METANER, "crosslm": CROSSLM}
TWO_STAGE_PRESETS = PRESETS | {"default": TWO_STAGES}
JOINT_PRESETS = PRESETS | {"default": JOINT}
