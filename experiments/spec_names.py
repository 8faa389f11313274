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
SETTINGS: dict[str, dict[str, str]] = {
    "": {"decoder": "head"},
    "options": {"decoders": "heads"},
}
_FIRST_METHODS = {now: first for first, now in METHODS.items()}
_FIRST_SETTINGS = {block: {now: first for first, now in names.items()} for block, names in SETTINGS.items()}


def first_names(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec under the names that hashes are made of.

    Example:
        >>> first_names({"method": "target_only", "config": {"head": {"kind": "crf"}}})
        {'method': 'in_domain', 'config': {'decoder': {'kind': 'crf'}}}
    """
    method = spec["method"]
    return {**spec, "method": _FIRST_METHODS.get(method, method), "config": first_settings(spec["config"])}


def current_names(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec under today's names.

    Example:
        >>> current_names({"method": "wpz", "config": {"decoder": {"kind": "crf"}}})
        {'method': 'protonet', 'config': {'head': {'kind': 'crf'}}}
    """
    method = spec["method"]
    return {**spec, "method": METHODS.get(method, method), "config": _renamed(spec["config"], "", now=True)}


def first_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    return _renamed(config, "", now=False)


def _renamed(values: Mapping[str, Any], block: str, *, now: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in values.items():
        first = _FIRST_SETTINGS.get(block, {}).get(key, key)
        name = SETTINGS.get(block, {}).get(first, first) if now else first
        if name in out:
            raise ConfigError(
                f"a setting stands there under two names, one of them '{key}'",
                place=f"config.{block}" if block else "config",
                expected="one of them",
            )
        path = f"{block}.{first}" if block else first
        out[name] = _renamed(value, path, now=now) if isinstance(value, Mapping) else value
    return out
