"""Presets of two papers: all methods of a paper's tables train the same model in the same way.

A preset is a block of settings, nested as in ``config.yaml``, that overrides the defaults; the user's settings override
the preset. ``Method.presets`` maps names to presets. Every method has one called ``paper``, which is used unless
``preset: NAME`` asks for another.
"""

from __future__ import annotations

from typing import Any

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
}

METANER: dict[str, Any] = {
    "encoder": {
        "kind": "recurrent",
        "words": {"size": 300, "train": True},
        "chars": {"use": True, "size": 100, "widths": [2, 3, 4, 5], "filters": 100},
        "recurrent": {"cell": "gru", "size": 128, "layers": 1},
        "dropout": 0.5,
    },
    "head": {"kind": "crf", "scheme": "BIOES"},
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
    "head": {"kind": "crf", "scheme": "BIOES"},
    "pretrain": _CROSSLM_TRAINING,
    "train": _CROSSLM_TRAINING,
}
# CrossLM §4.1: "RMSprop with a learning rate of 0.001 is used for our single task model."
SINGLE_TASK: dict[str, Any] = {"optimizer": "rmsprop", "lr": 1e-3, "schedule": "constant"}

PRESETS = {"paper": METANER, "crosslm": CROSSLM}  # of the baselines that both papers compare with
