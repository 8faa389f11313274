"""A label space: the entity types of one task, by name, with the tags a head predicts for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nershift.data.schemes import PREFIXES, Scheme, legal, spans_to_tags, tags_to_spans
from nershift.data.spans import Sentence, Span
from nershift.errors import DataError, nearest


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
            return [self.index[tag] for tag in spans_to_tags(spans, length, self.scheme)]
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

    def union(self, *others: LabelSpace) -> LabelSpace:
        return LabelSpace.of([*self.types, *(t for o in others for t in o.types)], self.scheme)

    def matches(self, other: LabelSpace) -> dict[str, str]:
        """Types of this space that ``other`` also has, by normalised name: ours → theirs."""
        theirs = {normalised(t): t for t in other.types}
        return {t: theirs[normalised(t)] for t in self.types if normalised(t) in theirs}


def map_labels(sentence: Sentence, mapping: Mapping[str, str]) -> Sentence:
    """Rename entity types; a type mapped to ``O`` is removed, one that is not named stays."""
    renamed = (replace(s, label=mapping.get(s.label, s.label)) for s in sentence.spans)
    return sentence.with_spans({s for s in renamed if s.label != "O"})  # nested ones of two types may become one


def span_tags(space: LabelSpace, span: Span) -> list[int]:
    """The tag ids a span's tokens carry when nothing touches it on the left."""
    size = span.end - span.start
    return space.encode([Span(0, size, span.label)], size)
