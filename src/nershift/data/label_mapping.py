"""Which entity types of two label sets mean the same: by their names, or because the user says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nershift.data.labels import normalised
from nershift.errors import SetupError, nearest

# Names under which the four classic types go; each row is one type.
CLASSIC = (
    ("person", "per"),
    ("organisation", "organization", "org"),
    ("location", "loc"),
    ("miscellaneous", "misc"),
)
LONG = {name: row[0] for row in CLASSIC for name in row}


def full_name(label: str) -> str:
    """The name under which types are compared: ``'PER'`` and ``'Person'`` are one type.

    Example:
        >>> full_name("ORG"), full_name("Restaurant_Name")
        ('organisation', 'restaurantname')
    """
    name = normalised(label)
    return LONG.get(name, name)


@dataclass(frozen=True)
class LabelMapping(Mapping[str, str]):
    """Target type → source type, of those that mean the same.

    Example:
        >>> mapping = LabelMapping.between(["person", "drug", "town"], ["PER", "LOC"], {"town": "LOC"})
        >>> dict(mapping), mapping.unmapped
        ({'person': 'PER', 'town': 'LOC'}, ('drug',))
        >>> mapping.describe()
        'person (PER), town (LOC)'
    """

    pairs: Mapping[str, str] = field(default_factory=dict)
    unmapped: tuple[str, ...] = ()  # types of the target that the source lacks

    @classmethod
    def between(
        cls, target: Iterable[str], source: Iterable[str], given: Mapping[str, str] | None = None
    ) -> LabelMapping:
        """Match types by normalised name; ``given`` (target type: source type) wins over names.

        Pairs of ``given`` whose source type is absent are ignored: they may belong to another source.
        """
        ours, theirs = list(target), list(source)
        by_name = {full_name(t): t for t in theirs}
        pairs = {t: by_name[full_name(t)] for t in ours if full_name(t) in by_name}
        pairs |= {t: s for t, s in (given or {}).items() if t in ours and s in theirs}
        return cls({t: pairs[t] for t in ours if t in pairs}, tuple(t for t in ours if t not in pairs))

    def __getitem__(self, target_type: str) -> str:
        return self.pairs[target_type]

    def __iter__(self) -> Iterable[str]:  # type: ignore[override]
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def describe(self) -> str:
        """The pairs as people read them: the source's name in brackets where it differs."""
        return ", ".join(t if t == s else f"{t} ({s})" for t, s in self.pairs.items())


def check_mapping(given: Mapping[str, str], target: Sequence[str], source: Sequence[str]) -> None:
    """Refuse a map (target type: source type) that names a type which its side does not have."""
    for pair in given.items():
        sides = zip(pair, (target, source), ("the target has", "the sources have"), strict=True)
        for label, types, owner in sides:
            if label not in types:
                raise SetupError(
                    f"{owner} no type '{label}'{nearest(label, types)}",
                    place="--same",
                    expected=f"TARGET_TYPE=SOURCE_TYPE; {owner} {', '.join(types) or 'none'}",
                )
