"""Label sets and their tags, and which entity types of two label sets mean the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from nershift.data.spans import Sentence, Span, overlapping
from nershift.errors import DataError, SetupError, nearest

Scheme = Literal["BIO", "IOB1", "BIOES", "BILOU"]
SCHEMES: tuple[Scheme, ...] = ("BIO", "IOB1", "BIOES", "BILOU")

PREFIXES: dict[Scheme, str] = {"BIO": "BI", "IOB1": "BI", "BIOES": "BIES", "BILOU": "BILU"}
_TO_BIOES = {"L": "E", "U": "S"}
_TO_BILOU = {"E": "L", "S": "U"}
# In BIOES an entity is open after B or I and closed after E, S or O.
_OPENS = {"B": True, "I": True, "E": False, "S": False, "O": False}
_STARTS = {"B": True, "S": True, "O": True, "I": False, "E": False}


def split_tag(tag: str) -> tuple[str, str]:
    """``'B-PER'`` → ``('B', 'PER')``; ``'O'`` → ``('O', '')``."""
    prefix, _, label = tag.partition("-")
    return prefix, label


def legal(before: str, after: str, scheme: Scheme) -> bool:
    """May ``after`` follow ``before``? The empty string stands for the edge of the sentence."""
    (p, p_type), (q, q_type) = split_tag(before or "O"), split_tag(after or "O")
    if scheme == "IOB1":
        return q != "B" or (p != "O" and p_type == q_type)
    if scheme == "BIO":
        return q != "I" or (p != "O" and p_type == q_type)
    p, q = _TO_BIOES.get(p, p), _TO_BIOES.get(q, q)
    if _OPENS[p]:
        return not _STARTS[q] and p_type == q_type
    return _STARTS[q]


def spans_to_tags(spans: Sequence[Span], length: int, scheme: Scheme, place: str = "") -> list[str]:
    """Write flat spans as one tag per token."""
    if overlapping(spans):
        raise DataError(
            "entities overlap, which one tag per token cannot hold",
            place=place,
            expected="flat spans",
            fix="use a head for overlapping entities, or a format with spans such as jsonl",
        )
    tags = ["O"] * length
    for span in spans:
        inside = range(span.start, span.end)
        if scheme in ("BIO", "IOB1"):
            prefixes = ["I"] * len(inside)
            touching = span.start > 0 and split_tag(tags[span.start - 1])[1] == span.label
            if scheme == "BIO" or touching:
                prefixes[0] = "B"
        elif len(inside) == 1:
            prefixes = ["S"]
        else:
            prefixes = ["B", *["I"] * (len(inside) - 2), "E"]
        if scheme == "BILOU":
            prefixes = [_TO_BILOU.get(p, p) for p in prefixes]
        for i, prefix in zip(inside, prefixes, strict=True):
            tags[i] = f"{prefix}-{span.label}"
    return tags


def tags_to_spans(tags: Sequence[str]) -> list[Span]:
    """Read spans from tags of any scheme as conlleval does; illegal sequences are closed, never dropped.

    A chunk starts at B, S, U, at any tag of another type, and at I, E or L after an end or an ``O``.
    """
    spans: list[Span] = []
    start, open_type = 0, ""
    before, before_type = "O", ""
    for i, tag in enumerate([*tags, "O"]):
        prefix, label = split_tag(tag)
        prefix = _TO_BIOES.get(prefix, prefix)
        starts = prefix != "O" and (prefix in "BS" or before in "OES" or label != before_type)
        if open_type and (prefix == "O" or starts):
            spans.append(Span(start, i, open_type))
            open_type = ""
        if starts:
            start, open_type = i, label
        before, before_type = prefix, label
    return spans


def normalised(name: str) -> str:
    """The form under which label names are compared: ``'Geo_Loc'`` and ``'geo-loc'`` are one name."""
    return "".join(c for c in name.lower() if c.isalnum())


@dataclass(frozen=True)
class LabelSpace:
    """Entity types with a tag scheme. Tag 0 is ``O``; equality is by types and scheme, not by name.

    Example:
        >>> space = LabelSpace.of(["PER", "LOC"], scheme="BIO")
        >>> space.tags
        ('O', 'B-LOC', 'I-LOC', 'B-PER', 'I-PER')
        >>> space.encode([Span(1, 3, "PER")], 4)
        [0, 3, 4, 0]
    """

    types: tuple[str, ...]
    scheme: Scheme = "BIOES"

    @classmethod
    def of(cls, types: Iterable[str], scheme: Scheme = "BIOES") -> LabelSpace:
        return cls(tuple(sorted(set(types))), scheme)

    @cached_property
    def tags(self) -> tuple[str, ...]:
        return ("O", *(f"{p}-{t}" for t in self.types for p in PREFIXES[self.scheme]))

    @cached_property
    def index(self) -> dict[str, int]:
        return {tag: i for i, tag in enumerate(self.tags)}

    def __len__(self) -> int:
        return len(self.tags)

    def encode(self, spans: Sequence[Span], length: int, place: str = "") -> list[int]:
        try:
            return [self.index[tag] for tag in spans_to_tags(spans, length, self.scheme, place)]
        except KeyError as key:
            label = str(key).strip("'").partition("-")[2]
            raise DataError(
                f"entity type '{label}' is not in the label space{nearest(label, self.types)}",
                place=place,
                expected=", ".join(self.types),
                fix="map it with a label map, or train with a label space that has it",
            ) from None

    def decode(self, ids: Iterable[int]) -> list[Span]:
        return tags_to_spans([self.tags[i] for i in ids])

    @cached_property
    def legal_steps(self) -> list[list[bool]]:
        """``[before][after]``: may the tag follow?"""
        return [[legal(a, b, self.scheme) for b in self.tags] for a in self.tags]

    @cached_property
    def legal_starts(self) -> list[bool]:
        return [legal("", tag, self.scheme) for tag in self.tags]

    @cached_property
    def legal_ends(self) -> list[bool]:
        return [legal(tag, "", self.scheme) for tag in self.tags]


def map_labels(sentence: Sentence, mapping: Mapping[str, str]) -> Sentence:
    """Rename entity types; a type mapped to ``O`` is removed, one that is not named stays."""
    renamed = (replace(s, label=mapping.get(s.label, s.label)) for s in sentence.spans)
    return sentence.with_spans({s for s in renamed if s.label != "O"})  # nested ones of two types may become one


def span_tags(space: LabelSpace, span: Span) -> list[int]:
    """The tag ids a span's tokens carry when nothing touches it on the left."""
    size = span.end - span.start
    return space.encode([Span(0, size, span.label)], size)


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
