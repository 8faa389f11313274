"""What Python callers pass is checked before anything else can fail: a message in place of a TypeError."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nershift.errors import ConfigError


def found(given: object) -> str:
    """What was passed, for a message.

    Example:
        >>> found(None), found("x")
        ('found NoneType None', "found str 'x'")
    """
    return f"found {type(given).__name__} {given!r:.60}"


def as_path(given: object, place: str, expected: str = "a path: text or pathlib.Path") -> Path:
    if isinstance(given, (str, os.PathLike)):
        return Path(given)
    raise ConfigError(found(given), place=place, expected=expected)


def as_block(given: object, place: str, expected: str = "a dict of settings") -> Mapping[str, Any]:
    """The mapping, or an empty one for None."""
    if given is None or isinstance(given, Mapping):
        return given or {}
    raise ConfigError(found(given), place=place, expected=expected)
