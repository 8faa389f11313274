"""Names in the specs of results, and what they are called now.

A result is found by a hash of its spec, so the names that go into the hash must never change: they are those of the
first results. Settings and methods have got other names since. Whoever renames one adds it here; tables and code use
today's names. A test compares these lists with the settings that nershift accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nershift.config import merge
from nershift.errors import ConfigError
from nershift.methods import METHODS as METHOD_CLASSES

# First name: name now. Settings by their whole path; a block takes what is in it along.
METHODS = {"in_domain": "target_only", "d_shift": "source_only", "wpz": "protonet"}
_STAGE = {
    "decay": "lr_decay",
    "longest": "max_tokens",
    "balance": "min_source_share",
    "swap": "mention_replacement",
    "perturb": "fgm_epsilon",
    "average": "model_soup",
    "record": "cuda_graphs",
    "max_steps": "updates",
}
SETTINGS: dict[str, str] = {
    "decoder": "head",
    "decoder.start": "head.from_source",
    "encoder.words.reserve": "encoder.words.extra_words",
    "encoder.words.drop": "encoder.words.word_dropout",
    "encoder.transformer.max_pieces": "encoder.transformer.max_subwords",
    **{f"{stage}.{first}": f"{stage}.{now}" for stage in ("pretrain", "train") for first, now in _STAGE.items()},
}
# Options of methods, by the method after which its variants (metaner-zero, auto-datnet) are named.
OPTIONS: dict[str, dict[str, str]] = {
    "bilm": {"options.size": "options.lm_size", "options.correct": "options.subtract_log_q"},
    "crosslm": {"options.size": "options.embedding_size", "options.correct": "options.subtract_log_q"},
    "datnet": {
        "options.decoders": "options.heads",
        "options.balance": "options.sampling_exponent",
        "options.weight": "options.adversary_weight",
        "options.words": "options.word_tables",
        "options.same": "head.same",
    },
    "dann": {"options.weight": "options.adversary_weight"},
    "laner": {"options.same": "head.same"},
    "metacross": {
        "options.steps": "options.inner_steps",
        "options.inner_rate": "options.inner_lr",
        "options.adapt_rate": "options.adapt_lr",
        "options.adapt_rates": "options.adapt_lrs",
        "options.decay": "options.weight_decay",
    },
    "metaner": {
        "options.inner_rate": "options.inner_lr",
        "options.weight": "options.adversary_weight",
        "options.inner": "options.inner_steps",
        "options.new_decoder": "options.new_head",
    },
}
# Values that were renamed, by the first path of their setting.
VALUES: dict[str, dict[Any, Any]] = {"decoder.start": {"new": False, "carried": True}}
# What the first results were run with, now that defaults are others. A spec means these unless it says otherwise; one
# that says `preset: default` means today's defaults. These settings are younger than the first results or were never
# said there, so that saying them makes no other key.
FIRST_DEFAULTS: dict[str, Any] = {
    "preset": "paper",
    "selection": "dev",
    "head": {"from_source": False, "new_rows": "random"},
}
# The same where the preset is silent.
FIRST_STAGE = {"epochs": 30, "batch_size": 32}
FIRST_OPTIONS: dict[str, dict[str, Any]] = {"laner": {"labels": "union", "new_rows": "nearest"}}
TODAY = "default"  # the preset that takes today's defaults
_Path = tuple[str, ...]


def first_names(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec under the names that hashes are made of.

    Example:
        >>> first_names({"method": "target_only", "config": {"head": {"kind": "crf"}}})
        {'method': 'in_domain', 'config': {'decoder': {'kind': 'crf'}}}
    """
    method = str(spec["method"])
    renamed = _inverse(_settings(method))
    values = {path: _inverse(pairs) for path, pairs in VALUES.items()}
    unsaid = [] if _of_today(spec["config"]) else list(_leaves(FIRST_DEFAULTS))
    config: dict[str, Any] = {}
    for path, value in _leaves(spec["config"]):
        if (path, value) in unsaid:
            continue
        first = _moved(path, renamed)
        _put(config, first, _value(value, values.get(".".join(first))))
    return {**spec, "method": _inverse(METHODS).get(method, method), "config": config}


def current_names(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec under today's names.

    Example:
        >>> current_names({"method": "wpz", "config": {"decoder": {"start": "carried"}}})
        {'method': 'protonet', 'config': {'head': {'from_source': True}}}
    """
    method = str(spec["method"])
    config: dict[str, Any] = {}
    for path, value in _leaves(spec["config"]):
        _put(config, _moved(path, _settings(method)), _value(value, VALUES.get(".".join(path))))
    return {**spec, "method": METHODS.get(method, method), "config": config}


def run_settings(method: str, config: Mapping[str, Any], few_labels: bool = False) -> dict[str, Any]:
    """Settings to run a cell with: its own over the defaults of the first results.

    Args:
        few_labels: the run uses only some of the target's labels, where weights are no longer selected on dev unasked.
    """
    if _of_today(config):
        return dict(config)
    settings = merge(_first_defaults(config, few_labels), config)
    preset = METHOD_CLASSES[METHODS.get(method, method)].presets[settings["preset"]]
    options = merge(FIRST_OPTIONS.get(family(method), {}), preset.get("options", {}))
    lengths = {stage: _length(preset.get(stage, {})) for stage in ("pretrain", "train")}
    return merge(lengths | ({"options": options} if options else {}), settings)


def _first_defaults(config: Mapping[str, Any], few_labels: bool) -> dict[str, Any]:
    """Types that are said to mean the same ask for rows of the source, which were never kept by default."""
    same = bool(config.get("head", {}).get("same"))
    first = merge(FIRST_DEFAULTS, {"head": {"from_source": same}})
    return first if few_labels else first | {"selection": "auto"}  # dev, where there is one


def _length(preset: Mapping[str, Any]) -> dict[str, Any]:
    """How long a stage trained. With epochs and updates, the shorter counted: a cell with one kept the other."""
    return {k: v for k, v in merge(FIRST_STAGE, preset).items() if k in ("epochs", "updates", "batch_size")}


def _of_today(config: Mapping[str, Any]) -> bool:
    return config.get("preset") == TODAY


def family(method: str) -> str:
    """The method after which a variant is named."""
    return method.removeprefix("auto-").removesuffix("-zero").removesuffix("-few")


def _settings(method: str) -> dict[str, str]:
    return SETTINGS | OPTIONS.get(family(method), {})


def _inverse(names: Mapping[Any, Any]) -> dict[Any, Any]:
    return {now: first for first, now in names.items()}


def _leaves(values: Mapping[str, Any], block: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*block, key))
        else:
            yield (*block, key), value


def _moved(path: _Path, names: Mapping[str, str]) -> _Path:
    """The path with its longest part that was renamed under its other name."""
    for end in range(len(path), 0, -1):
        if name := names.get(".".join(path[:end])):
            return (*name.split("."), *path[end:])
    return path


def _value(value: Any, other: Mapping[Any, Any] | None) -> Any:
    return other.get(value, value) if other and isinstance(value, str | bool) else value


def _put(config: dict[str, Any], path: _Path, value: Any) -> None:
    for name in path[:-1]:
        config = config.setdefault(name, {})
    if path[-1] in config:
        raise ConfigError("a setting stands there under two names", place=".".join(("config", *path)))
    config[path[-1]] = dict(value) if isinstance(value, Mapping) else value
