"""Names in the specs of results, and how they are called now.

A result is found by a hash of its spec, so the names that go into the hash must never change: they are those of the
first results. Settings and methods have got other names since. Whoever renames one adds it here; tables and code use
today's names. A test compares these lists with the settings that nershift accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nershift.errors import ConfigError

# First name: name now.
METHODS = {"in_domain": "target_only", "d_shift": "source_only", "wpz": "protonet"}
# The same for settings, by the block they stand in; blocks go by their first names.
_STAGE = {
    "decay": "lr_decay",
    "longest": "max_tokens",
    "balance": "min_source_share",
    "swap": "mention_replacement",
    "perturb": "fgm_epsilon",
    "average": "model_soup",
    "record": "cuda_graphs",
}
SETTINGS: dict[str, dict[str, str]] = {
    "": {"decoder": "head"},
    "encoder.words": {"reserve": "extra_words", "drop": "word_dropout"},
    "encoder.transformer": {"max_pieces": "max_subwords"},
    "pretrain": _STAGE,
    "train": _STAGE,
}
# And for the options of methods, by the method after which its variants (metaner-zero, auto-datnet) are named.
OPTIONS: dict[str, dict[str, str]] = {
    "bilm": {"size": "lm_size", "correct": "subtract_log_q"},
    "crosslm": {"size": "embedding_size", "correct": "subtract_log_q"},
    "datnet": {
        "decoders": "heads",
        "balance": "sampling_exponent",
        "weight": "adversary_weight",
        "words": "word_tables",
    },
    "dann": {"weight": "adversary_weight"},
    "metacross": {
        "steps": "inner_steps",
        "inner_rate": "inner_lr",
        "adapt_rate": "adapt_lr",
        "adapt_rates": "adapt_lrs",
        "decay": "weight_decay",
    },
    "metaner": {
        "inner_rate": "inner_lr",
        "weight": "adversary_weight",
        "inner": "inner_steps",
        "new_decoder": "new_head",
    },
}
_FIRST_METHODS = {now: first for first, now in METHODS.items()}


def first_names(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec under the names that hashes are made of.

    Example:
        >>> first_names({"method": "target_only", "config": {"head": {"kind": "crf"}}})
        {'method': 'in_domain', 'config': {'decoder': {'kind': 'crf'}}}
    """
    method = str(spec["method"])
    config = _renamed(spec["config"], "", method, now=False)
    return {**spec, "method": _FIRST_METHODS.get(method, method), "config": config}


def current_names(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec under today's names.

    Example:
        >>> current_names({"method": "wpz", "config": {"decoder": {"kind": "crf"}}})
        {'method': 'protonet', 'config': {'head': {'kind': 'crf'}}}
    """
    method = str(spec["method"])
    config = _renamed(spec["config"], "", method, now=True)
    return {**spec, "method": METHODS.get(method, method), "config": config}


def family(method: str) -> str:
    """The method after which a variant is named."""
    return method.removeprefix("auto-").removesuffix("-zero").removesuffix("-few")


def _renamed(values: Mapping[str, Any], block: str, method: str, *, now: bool) -> dict[str, Any]:
    names = OPTIONS.get(family(method), {}) if block == "options" else SETTINGS.get(block, {})
    firsts = {current: first for first, current in names.items()}
    out: dict[str, Any] = {}
    for key, value in values.items():
        first = firsts.get(key, key)
        name = names.get(first, first) if now else first
        if name in out:
            raise ConfigError(
                f"a setting stands there under two names, one of them '{key}'",
                place=f"config.{block}" if block else "config",
                expected="one of them",
            )
        path = f"{block}.{first}" if block else first
        out[name] = _renamed(value, path, method, now=now) if isinstance(value, Mapping) else value
    return out
