"""The settings of DATNet: options of both methods, and the presets of the paper and of its public code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from nershift.config import merge, setting


@dataclass(frozen=True)
class CommonOptions:
    """What `datnet` and `auto-datnet` share."""

    adversary: Literal["grad", "ad", "none"] = setting(
        "grad", "Loss of the discriminator: GRAD (eq. 1), AD (plain cross-entropy), or no discriminator."
    )
    alpha: float = setting(0.25, "α of eq. 1: weight of source sentences; target sentences have 1 - α.", low=0, high=1)
    gamma: float = setting(2.0, "γ of eq. 1: how much less easy sentences count; 0: as much as hard ones.", low=0)
    adversary_weight: float = setting(
        1.0, "Factor of the reversed gradient that reaches the encoder; 0: none.", was="weight", low=0
    )
    adversarial_training: bool = setting(True, "Also train on perturbed word and character embeddings (eqs. 3-4).")
    epsilon_source: float = setting(5.0, "ε of the source's word embeddings: L2 norm per sentence.", low=0)
    epsilon_target: float = setting(5.0, "ε of the target's word embeddings: L2 norm per sentence.", low=0)
    epsilon_chars: float = setting(5.0, "ε of the character embeddings of both: L2 norm per sentence.", low=0)
    private_size: int = setting(
        100, "Units per direction of each LSTM of variant P; variant F has encoder.recurrent.size.", low=1
    )
    word_tables: Literal["auto", "shared", "separate"] = setting(
        "auto", "One table of word vectors for both sides, or two; auto: one where the languages agree.", was="words"
    )
    source_words: dict[str, Any] = setting(dict, "Settings of the source's word vectors, over encoder.words.")
    source_share: float = setting(0.4, "Steps per epoch, as a share of the source's batches.", low=0.001, high=1)
    sampling_exponent: float = setting(
        0.5,
        "How often the target is seen. 1: once per epoch; 0: in every step; between: its size to this power.",
        was="balance",
        low=0,
        high=1,
    )
    epoch_steps: int = setting(0, "Steps per epoch; 0: by source_share, but at least one pass over the target.", low=0)
    test_oracle: bool = setting(False, "Also log test F1 per epoch, to compare with work that selects on test.")


_HEADS_HELP = (
    "One head per side, or a shared one in which types of one meaning have the same rows; "
    "auto: shared for variant F with a CRF, if the sides have types in common."
)


@dataclass(frozen=True)
class DATNetOptions(CommonOptions):
    variant: Literal["F", "P", "base"] = setting(
        "F", "F: one shared LSTM. P: a shared LSTM and a private one per side. base: the target alone."
    )
    heads: Literal["auto", "separate", "shared"] = setting("separate", _HEADS_HELP, was="decoders")


@dataclass(frozen=True)
class AutoOptions(CommonOptions):
    heads: Literal["auto", "separate", "shared"] = setting("auto", _HEADS_HELP, was="decoders")


# §4.2. Batch size, epochs, dropout and filter widths are not in the paper: these are those of its public code.
_PAPER: dict[str, Any] = {
    "encoder": {
        "kind": "recurrent",
        "words": {"size": 50, "train": False},
        "chars": {"use": True, "size": 30, "widths": [2, 3, 4], "filters": 60},
        "recurrent": {"cell": "lstm", "size": 200, "layers": 1},
        "input_dropout": 0.2,
        "dropout": 0.5,
    },
    "head": {"kind": "crf", "scheme": "BIOES"},
    "train": {
        "optimizer": "adam",
        "lr": 1e-3,
        "weight_decay": 0.0,
        "clip": 5.0,
        "schedule": "inverse",
        "lr_decay": 0.05,
        "batch_size": 16,
        "epochs": 50,
    },
}
# The public code. α cancels out there (it weights both halves of a two-class softmax), which is α = 1/2 here. The norm
# of a character perturbation is taken per dimension, which makes the whole √30 times as long as the stated ε.
_RELEASED = merge(
    _PAPER,
    {"options": {"alpha": 0.5, "adversary_weight": 0.7, "epsilon_chars": 27.4, "sampling_exponent": 1.0}},
)
# What our runs taught (docs/findings.md): one head where types agree, weaker perturbation, words that are trained, and
# as many updates with ten sentences as with a thousand.
_DEFAULT = merge(
    _PAPER,
    {
        "encoder": {"words": {"size": 100, "train": True}},
        "train": {
            "lr": 2e-3,
            "schedule": "constant",
            "epochs": 0,
            "min_updates": 1500,
            "passes": 4,
            "average_last": 0.3,
        },
        "options": {"heads": "auto", "epsilon_source": 1.0, "epsilon_target": 1.0, "epsilon_chars": 1.0},
    },
)
PRESETS = {"default": _DEFAULT, "paper": _PAPER, "released": _RELEASED}
