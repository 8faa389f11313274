"""Methods by name: one file each in this package, found by looking; other packages add theirs by entry point."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points

from nershift.errors import ConfigError, nearest
from nershift.methods.base import Method


@cache
def methods() -> dict[str, type[Method]]:
    """Every method, in alphabetical order."""
    found = {method.name: method for method in _defined_here()}
    for point in entry_points(group="nershift.methods"):
        found[point.name] = point.load()
    return dict(sorted(found.items()))


def _defined_here() -> Iterator[type[Method]]:
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for value in vars(module).values():
            here = isinstance(value, type) and value.__module__ == module.__name__
            if here and issubclass(value, Method) and "name" in vars(value):
                yield value


def get_method(name: str) -> type[Method]:
    known = methods()
    if name not in known:
        raise ConfigError(
            f"there is no method '{name}'{nearest(name, known)}", place="--method", expected=", ".join(known)
        )
    return known[name]
