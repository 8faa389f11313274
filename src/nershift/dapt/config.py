"""Settings of domain-adaptive pre-training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from nershift.config import TrainConfig, build, merge, setting, to_dict
from nershift.dapt.masking import Masking
from nershift.errors import ConfigError

_TRAINING = TrainConfig(
    optimizer="adamw",
    lr=5e-5,
    weight_decay=0.01,
    clip=1.0,
    warmup=0.02,
    batch_size=128,
    epochs=15,
    patience=3,
)


@dataclass(frozen=True)
class DaptConfig:
    """``train.epochs`` is the largest number of passes over the text, ``train.patience`` the number of evaluations
    without a lower held-out loss before training stops."""

    seed: int = setting(1, "Seed of everything random.")
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "Where to train.")
    masking: Masking = setting("span", "What to mask: single sub-words (token), or spans of whole words.")
    share: float = setting(0.15, "Share of sub-words to predict, above 0 and below 1.", low=0, high=1)
    max_subwords: int = setting(128, "Sub-words per row, special ones included.", was="max_pieces", low=8)
    hold_out: float = setting(0.02, "Share of the text held out to measure progress, above 0.", low=0, high=0.5)
    eval_steps: int = setting(200, "Steps between evaluations; at most one pass over the text.", low=1)
    head_lr: float = setting(5e-4, "Learning rate of a new masked-LM head, for a checkpoint without one.", low=0)
    rank: int | None = setting(
        None,
        "Of a decoder-only model: rank of the changes to its linear layers, which alone are trained; 64 if null. "
        "0: all weights are trained.",
        low=0,
    )
    train: TrainConfig = setting(lambda: _TRAINING, "Training on the text; batch_size counts sentences.")


def resolve(config: Mapping[str, Any] | None = None, seed: int | None = None) -> DaptConfig:
    """Defaults, then the user's settings; every mistake is a :class:`ConfigError`."""
    values = merge({"train": to_dict(_TRAINING)}, config or {})
    if seed is not None:
        values["seed"] = seed
    settings = build(DaptConfig, values)
    for name, good, expected in (
        ("share", 0 < settings.share < 1, "a share between 0 and 1"),
        ("hold_out", settings.hold_out > 0, "a share above 0, at most 0.5"),
        ("train.model_soup", settings.train.model_soup == 1, "1: only taggers are averaged"),
        ("train.mention_replacement", not settings.train.mention_replacement, "0: raw text has no entities"),
        ("train.fgm_epsilon", not settings.train.fgm_epsilon, "0: words are masked, not perturbed"),
    ):
        if not good:
            raise ConfigError(f"found {attrgetter(name)(settings)!r}", place=f"config.{name}", expected=expected)
    return settings
