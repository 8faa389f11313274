"""A corpus: named splits of sentences from one domain in one language."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from nershift.data.labels import LabelSpace, map_labels
from nershift.data.schemes import Scheme
from nershift.data.spans import Sentence
from nershift.errors import DataError

_LACKING = {
    "train": "add labelled sentences as train.conll (or .jsonl …), or name a corpus that has them",
    "dev": "hold out part of train for dev (--hold-out 0.1), or add a dev file",
    "test": "add labelled sentences that are not in train as test.conll (or .jsonl …)",
}


@dataclass(frozen=True)
class Corpus:
    """Splits by name (``train``, ``dev``, ``test``; any may be missing) plus unlabelled ``raw`` sentences.

    Example:
        >>> c = Corpus("toy", {"train": (Sentence.of(["Rome"], [(0, 1, "LOC")]),)})
        >>> c.types, len(c.train)
        (('LOC',), 1)
    """

    name: str
    splits: Mapping[str, tuple[Sentence, ...]] = field(default_factory=dict)
    domain: str = ""
    language: str = ""

    def split(self, name: str) -> tuple[Sentence, ...]:
        if name not in self.splits:
            raise DataError(
                f"corpus '{self.name}' has no '{name}' split",
                expected=f"{name}, beside what there is: {', '.join(self.splits) or 'nothing'}",
                fix=_LACKING.get(name, f"add a {name} file"),
            )
        return self.splits[name]

    @property
    def train(self) -> tuple[Sentence, ...]:
        return self.split("train")

    @property
    def dev(self) -> tuple[Sentence, ...]:
        return self.split("dev")

    @property
    def test(self) -> tuple[Sentence, ...]:
        return self.split("test")

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(sorted({s.label for split in self.splits.values() for sent in split for s in sent.spans}))

    @property
    def nested(self) -> bool:
        """May entities of this corpus overlap?"""
        return any(s.nested for split in self.splits.values() for s in split)

    def label_space(self, scheme: Scheme = "BIOES") -> LabelSpace:
        return LabelSpace.of(self.types, scheme)

    def counts(self, split: str) -> Counter[str]:
        """Mentions by type."""
        return Counter(s.label for sent in self.splits.get(split, ()) for s in sent.spans)

    def with_splits(self, **splits: Iterable[Sentence]) -> Corpus:
        return replace(self, splits={**self.splits, **{k: tuple(v) for k, v in splits.items()}})

    def mapped(self, mapping: Mapping[str, str]) -> Corpus:
        """Rename types in every split (``O`` removes a type)."""
        return self.with_splits(**{k: [map_labels(s, mapping) for s in v] for k, v in self.splits.items()})

    def hold_out(self, share: float, seed: int = 13) -> Corpus:
        """Move a fixed, seeded share of ``train`` to ``dev``. Refused where a dev split exists."""
        if "dev" in self.splits:
            raise DataError(f"corpus '{self.name}' already has a dev split", fix="leave --hold-out away")
        order = list(range(len(self.train)))
        random.Random(seed).shuffle(order)
        held = set(order[: max(1, round(share * len(order)))])
        return self.with_splits(
            train=[s for i, s in enumerate(self.train) if i not in held],
            dev=[s for i, s in enumerate(self.train) if i in held],
        )

    def digest(self) -> str:
        """A hash of all sentences and spans: two corpora with equal digests are equal data."""
        h = hashlib.sha256()
        for name in sorted(self.splits):
            h.update(f"\0{name}\0".encode())
            for s in self.splits[name]:
                h.update("\t".join(s.tokens).encode() + b"\n")
                h.update(repr([(x.start, x.end, x.label) for x in s.spans]).encode() + b"\n")
        return h.hexdigest()
