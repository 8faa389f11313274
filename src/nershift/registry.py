"""Parts that plug in: encoders, heads, methods and formats by name, from here and from other packages."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from nershift.arguments import found
from nershift.errors import ConfigError, nearest

T = TypeVar("T")
P = TypeVar("P")


class Registry(Mapping[str, T], Generic[T]):
    """Names and what they stand for.

    A part registers itself with a decorator where it is defined. The modules of ``homes`` are imported when a name is
    not known yet, so a new file there is found without being listed anywhere. Other packages name their parts as entry
    points of ``group``, or call the decorator themselves.

    Args:
        what: what one entry is called in messages, such as ``encoder``.
        group: the entry point group of other packages.
        homes: packages whose modules are imported to find the built-in parts.
        attribute: of a part, which is set to its name.

    Example:
        >>> colours = Registry[int]("colour", "example.colours")
        >>> colours.register("red")(0xFF0000)
        16711680
        >>> colours["red"] == 0xFF0000, list(colours)
        (True, ['red'])
    """

    def __init__(self, what: str, group: str, *homes: str, attribute: str = "") -> None:
        self.what, self.group, self.homes, self.attribute = what, group, homes, attribute
        self._parts: dict[str, T] = {}
        self._aliases: dict[str, str] = {}
        self._complete = False

    def register(self, name: str, *aliases: str) -> Callable[[P], P]:
        """Decorate a part to make it known under ``name``; it is found under each of ``aliases`` too.

        A class learns its name: as ``attribute`` of the registry says, where it has one.

        Example:
            >>> parts = Registry[type]("part", "example.parts", attribute="kind")
            >>> @parts.register("mine")
            ... class Mine: ...
            >>> parts["mine"] is Mine, Mine.kind
            (True, 'mine')
        """

        def keep(part: P) -> P:
            if self.attribute:
                setattr(part, self.attribute, name)
            self._parts[name] = part  # type: ignore[assignment]
            self._aliases |= dict.fromkeys(aliases, name)
            return part

        return keep

    def canonical(self, name: str) -> str:
        """The name that an alias stands for; any other name is returned as it is."""
        if name not in self._parts:
            self._look_for(name)
        return self._aliases.get(name, name)

    def aliases(self, name: str) -> list[str]:
        """Other names under which a part is found."""
        return sorted(alias for alias, of in self._aliases.items() if of == name)

    def _look_for(self, name: str) -> None:
        """A part in a module or package of its own name needs no other module to be imported."""
        for home in self.homes if name.isidentifier() else ():
            module = f"{home}.{name}"
            # In a package the part is in a module that is called what it is: heads/crf/head.py.
            for place in (module, f"{module}.{self.what}"):
                if name not in self._parts and _exists(place):
                    importlib.import_module(place)
        if name not in self._parts and not self._complete:
            self._load()

    def _load(self) -> None:
        self._complete = True
        for home in self.homes:
            package = importlib.import_module(home)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{home}.{module.name}")
        for point in entry_points(group=self.group):
            if point.name not in self._parts:
                self._parts[point.name] = point.load()

    def __getitem__(self, name: str) -> T:
        if not isinstance(name, str):
            raise ConfigError(found(name), place=f"name of the {self.what}", expected=f"one of: {', '.join(self)}")
        name = self.canonical(name)
        if name not in self._parts:
            raise ConfigError(
                f"there is no {self.what} '{name}'{nearest(name, [*self._parts, *self._aliases])}",
                expected=f"one of: {', '.join(self)}",
            )
        return self._parts[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.canonical(name) in self._parts

    def __iter__(self) -> Iterator[str]:
        if not self._complete:
            self._load()
        return iter(sorted(self._parts))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # what should hold it is no package
        return False
