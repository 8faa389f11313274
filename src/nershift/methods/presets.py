"""The settings of MetaNER §5.1.2 and CrossLM §4.1: all methods of a paper's tables train the same model."""

from __future__ import annotations

from typing import Any

# "Decay rate 0.09" is all the paper says of its schedule; read here as ρ of lr / (1 + ρ · epoch).
# Batch size and the number of epochs are not in the paper.
_TRAINING: dict[str, Any] = {
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
    "pretrain": _TRAINING,
    "train": _TRAINING,
}

# CrossLM builds on NCRF++ and changes its batch size; what its §4.1 does not say is NCRF++'s default.
_JOINT: dict[str, Any] = {
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
    "pretrain": _JOINT,
    "train": _JOINT,
}
# "RMSprop with a learning rate of 0.001 is used for our single task model."
SINGLE_TASK: dict[str, Any] = {"optimizer": "rmsprop", "lr": 1e-3, "schedule": "constant"}

PRESETS = {"paper": METANER, "crosslm": CROSSLM}
