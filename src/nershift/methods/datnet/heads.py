"""One head over the types of both sides (``options.heads: shared``): which rows a type has, and each side's view."""

from __future__ import annotations

from collections.abc import Mapping

from nershift.data.labels import LabelMapping, LabelSpace, full_name
from nershift.errors import SetupError
from nershift.heads.base import Head
from nershift.heads.crf.head import CRFHead
from nershift.methods.datnet.crf_view import CRFView

Rows = dict[str, str]  # a side's types → the types of the joint head whose rows they have


def joint_rows(target: LabelSpace, sources: Mapping[str, LabelSpace], same: Mapping[str, str]) -> dict[str, Rows]:
    """The rows of each source.

    Types that mean the same as one of the target's have its rows, under its name. The others have rows of their own,
    which sources share among themselves by full name.
    """
    made = {name: _rows_of(target, space, same) for name, space in sources.items()}
    ours = set(target.types)
    if not any(ours.intersection(rows.values()) for rows in made.values()):
        theirs = sorted({t for rows in made.values() for t in rows})
        raise SetupError(
            f"no type of the sources ({', '.join(theirs)}) means the same as one of the target's",
            place="config.options.heads",
            expected=f"for a shared head at least one of {', '.join(target.types)}",
            fix="say which types mean the same, --same TARGET_TYPE=SOURCE_TYPE, or omit options.heads",
        )
    return made


def _rows_of(target: LabelSpace, space: LabelSpace, same: Mapping[str, str]) -> Rows:
    by_name = {full_name(t): t for t in space.types}
    # What is said of another source's type holds for this one's of the same full name.
    found = {ours: t if t in space.types else by_name.get(full_name(t)) for ours, t in same.items()}
    pairs = LabelMapping.between(target.types, space.types, {ours: t for ours, t in found.items() if t is not None})
    _refuse_twins(pairs, "the target", "source type")
    ours = {t: mine for mine, t in pairs.items()}
    rows = {t: ours.get(t, f"source: {full_name(t)}") for t in space.types}
    _refuse_twins(rows, "a source", "meaning")
    return rows


def _refuse_twins(pairs: Mapping[str, str], owner: str, other: str) -> None:
    """Tags of one side cannot share rows with each other."""
    met: dict[str, str] = {}
    for label, value in pairs.items():
        twin = met.setdefault(value, label)
        if twin != label:
            raise SetupError(
                f"types '{twin}' and '{label}' of {owner} have one {other}: '{value}'",
                place="--same",
                expected="no two types of one side with the same rows",
                fix="take one out of --same, or make one type of them with a label map",
            )


def joint_space(target: LabelSpace, rows: Mapping[str, Rows]) -> LabelSpace:
    return LabelSpace.of([*target.types, *(t for mine in rows.values() for t in mine.values())], target.scheme)


def view(whole: Head, space: LabelSpace, rows: Rows) -> Head:
    """``whole`` itself where nothing differs."""
    if whole.fits(space) and all(t == row for t, row in rows.items()):
        return whole
    if not isinstance(whole, CRFHead):
        raise TypeError(f"a head of kind '{whole.kind}' cannot be shared in part")
    return CRFView(whole, space, rows)
