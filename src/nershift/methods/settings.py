"""The settings of MetaNER §5.1.2, shared by the methods of its tables: all of them train the same model."""

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
    "decay": 0.09,
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
    "decoder": {"kind": "crf", "scheme": "BIOES"},
    "pretrain": _TRAINING,
    "train": _TRAINING,
}

PRESETS = {"paper": METANER}
