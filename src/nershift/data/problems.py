"""What a reader does with a broken file: stop, or repair and keep count. It never skips anything silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from nershift.errors import DataError


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a file. ``repair`` says what is done about it when reading goes on."""

    kind: str
    place: str
    found: str
    expected: str = ""
    fix: str = ""
    repair: str = ""

    def error(self) -> DataError:
        return DataError(self.found, place=self.place, expected=self.expected, fix=self.fix)


@dataclass
class Problems:
    """Collects problems (``repair=True``) or raises the first one as a :class:`DataError` (the default).

    A reader calls :meth:`report` and then carries out the repair named there; it never skips anything without
    having done so. Entities that overlap are a problem unless they may be ``nested``.
    """

    repair: bool = False
    nested: bool = False
    found: list[Problem] = field(default_factory=list)

    def report(self, kind: str, place: str, found: str, *, expected: str = "", fix: str = "", repair: str = "") -> None:
        self.add(Problem(kind, place, found, expected, fix, repair))

    def add(self, problem: Problem) -> None:
        if not self.repair:
            raise problem.error()
        self.found.append(problem)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def counts(self) -> Counter[str]:
        return Counter(p.kind for p in self.found)
