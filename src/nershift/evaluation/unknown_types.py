"""Entity types that one side of a comparison lacks: all of them count as wrong, whatever the tagger has learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher

from nershift.data.spans import Sentence
from nershift.evaluation.run_warnings import RunWarning

_LISTED = 8  # types that a message names
_ALIKE = 0.5  # of two names: above this, they may mean the same


def type_warnings(gold: Sequence[Sentence], known: Collection[str], whose: str = "The model") -> list[RunWarning]:
    """What to know before a score of 0 is blamed on the tagger.

    Args:
        known: the types that can be predicted, or that were.
        whose: what knows them.

    Example:
        >>> rome = Sentence.of(["Rome"], [(0, 1, "city")])
        >>> print(type_warnings([rome], ["place"])[0].found)
        The model has none of the types of the data: city (1 entity). Its own: place.
    """
    wanted = Counter(span.label for sentence in gold for span in sentence.spans)
    missing = {label: count for label, count in sorted(wanted.items()) if label not in known}
    if not missing:
        return []
    alone = sorted(set(known) - set(wanted))
    none = len(missing) == len(wanted)
    what = f"{whose} has none of the types of the data" if none else f"{whose} has no such type, so all of these count"
    listed = _and_more([f"{label} ({_entities(count)})" for label, count in missing.items()])
    own = _and_more(sorted(known)) or "none"
    found = f"{what}{'' if none else ' as missed'}: {listed}. Its own: {own}."
    return [RunWarning("unknown_types", "failed" if none else "warning", found, _fix(list(missing), alone))]


def _fix(missing: Sequence[str], alone: Sequence[str]) -> str:
    alike = [(SequenceMatcher(None, a.lower(), b.lower()).ratio(), a, b) for a in missing for b in alone]
    share, old, new = max(alike, default=(0.0, missing[0], "TYPE"))
    if share <= _ALIKE and len(alone) > 1:
        new = "TYPE"
    return (
        "Where a type has another name, rename it in the data, in Python: "
        f"`read_corpus(FILE).mapped({{{old!r}: {new!r}}})`. Others need a tagger that was trained on them."
    )


def _entities(count: int) -> str:
    return f"{count:,} {'entity' if count == 1 else 'entities'}"


def _and_more(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
