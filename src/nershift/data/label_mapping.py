"""Which entity types of two label sets mean the same: by their names, or because somebody says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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


def same_types(ours: Iterable[str], theirs: Iterable[str], given: Mapping[str, str]) -> dict[str, str]:
    """Types that mean the same, ours → theirs: those of ``given``, then those of one full name."""
    by_name = {full_name(t): t for t in theirs}
    found = {t: by_name[full_name(t)] for t in ours if full_name(t) in by_name}
    return found | dict(given)


def check_same(
    given: Mapping[str, str], ours: Sequence[str], theirs: Sequence[str], place: str = "config.options.same"
) -> None:
    """Refuse a map (target type: source type) that names what a side does not have."""
    for pair in given.items():
        for label, types, owner in zip(pair, (ours, theirs), ("the target has", "the sources have"), strict=True):
            if label not in types:
                raise SetupError(
                    f"{owner} no type '{label}'{nearest(label, types)}",
                    place=place,
                    expected=f"target type: source type; {owner} {', '.join(types) or 'none'}",
                )
