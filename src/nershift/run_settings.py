"""The settings of a run: defaults, then a method's preset, then what the user says."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nershift.arguments import as_block
from nershift.config import Config, build, current_names, merge, to_dict
from nershift.encoders.base import ENCODERS
from nershift.errors import ConfigError, nearest
from nershift.heads.base import HEADS
from nershift.methods import METHODS

# Settings whose values are registered names.
KINDS: dict[str, Mapping[str, Any]] = {"encoder.kind": ENCODERS, "head.kind": HEADS}
log = logging.getLogger(__name__)


def resolve(method: str, settings: Mapping[str, Any] | None = None, seed: int | None = None) -> Config:
    """Defaults, then the method's preset, then the user's settings."""
    cls = METHODS[method]
    values = current_names(Config, as_block(settings, "config"))
    if isinstance(values.get("options"), Mapping):
        values["options"] = current_names(cls.Options, values["options"], "config.options")
        values = _same_types_in_one_place(values)
    if METHODS.canonical(str(values.get("method", method))) != cls.name:
        raise ConfigError(
            f"the settings say '{values['method']}', but the method of this run is '{method}'",
            place="config.method",
            expected="one method",
            fix=f"--method {values['method']}, or omit 'method' in the settings",
        )
    named, kind = (_value_at(values, "encoder", *path) for path in (("transformer", "name"), ("kind",)))
    preset = str(values.get("preset", "default"))
    if preset not in ("default", *cls.presets):
        raise ConfigError(
            f"method '{method}' has no preset '{preset}'", place="preset", expected=" | ".join(cls.presets)
        )
    begin = _one_length(cls.preset(preset, None if kind is None else str(kind)), values)
    values = merge(merge(begin, values), {"method": cls.name})
    if seed is not None:
        values["seed"] = seed
    config = build(Config, values)
    if named and kind is None and config.encoder.kind != "transformer":
        raise ConfigError(
            f"the encoder '{named}' was named, but encoder.kind is {config.encoder.kind}",
            place="config.encoder.transformer.name",
            expected="encoder.kind transformer",
            fix="--set encoder.kind=transformer, or omit the name",
        )
    for place, known in KINDS.items():
        if (kind := _value_at(to_dict(config), *place.split("."))) not in known:
            raise ConfigError(
                f"found '{kind}'{nearest(kind, known)}", place=f"config.{place}", expected=" | ".join(known)
            )
    options: Any = build(cls.Options, config.options, "config.options")
    return replace(config, options=to_dict(options))


def _one_length(preset: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The preset without its length, and a patience in epochs, where the user gives a length in the other unit."""
    begin = dict(preset)
    for block in ("pretrain", "train"):
        given = {name for name in ("updates", "epochs") if _value_at(values, block, name)}
        if len(given) == 1:
            own = begin.get(block, {})
            dropped = {"updates", "epochs"} | ({"patience"} if given == {"updates"} and own.get("epochs") else set())
            begin[block] = {k: v for k, v in own.items() if k not in dropped}
    return begin


def _same_types_in_one_place(values: dict[str, Any]) -> dict[str, Any]:
    """Earlier versions had ``same`` among the options of two methods."""
    options = dict(values["options"])
    if "same" not in options:
        return values
    log.warning("config.options.same is now called head.same")
    return merge(values, {"head": {"same": options.pop("same")}}) | {"options": options}


def _value_at(settings: Mapping[str, Any], *path: str) -> Any:
    """The setting at a path of names; None if it is not set."""
    for name in path:
        settings = settings.get(name) if isinstance(settings, Mapping) else None  # type: ignore[assignment]
    return settings
