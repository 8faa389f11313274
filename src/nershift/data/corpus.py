"""A corpus: named splits of sentences from one domain in one language, and small training sets drawn from it."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from nershift.arguments import as_block
from nershift.data.labels import LabelSpace, Scheme, map_labels
from nershift.data.spans import Sentence
from nershift.errors import DataError, SetupError

T = TypeVar("T")

SPLIT_WORDS = {
    "train": ("train", "training"),
    "dev": ("dev", "devel", "development", "valid", "validation", "val", "testa"),
    "test": ("test", "testb", "testing"),
    "raw": ("raw", "unlabelled", "unlabeled"),
}
_BY_WORD = {word: split for split, words in SPLIT_WORDS.items() for word in words}
_ENDING = re.compile(r"(?<![a-z])(train|dev|valid|testa|testb|test)$")
_LACKING = {
    "train": "add labelled sentences as train.conll (or .jsonl …), or name a corpus that has them",
    "dev": "hold out part of train for dev (--hold-out 0.1), or add a dev file",
    "test": "add labelled sentences that are not in train as test.conll (or .jsonl …)",
}


@dataclass(frozen=True)
class Corpus:
    """Splits by name (``train``, ``dev``, ``test``; any may be missing) plus unlabelled ``raw`` sentences.

    ``declared`` are entity types that an annotator knows of, whether a label shows them or not.

    Example:
        >>> c = Corpus("toy", {"train": (Sentence.of(["Rome"], [(0, 1, "LOC")]),)})
        >>> c.types, len(c.train)
        (('LOC',), 1)
    """

    name: str
    splits: Mapping[str, tuple[Sentence, ...]] = field(default_factory=dict)
    domain: str = ""
    language: str = ""
    declared: tuple[str, ...] = ()

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
        shown = {s.label for split in self.splits.values() for sent in split for s in sent.spans}
        return tuple(sorted({*shown, *self.declared}))

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
        mapping = as_block(mapping, "mapped", "a dict: old type → new type")
        declared = tuple(sorted({mapping.get(t, t) for t in self.declared} - {"O"}))
        mapped = {k: [map_labels(s, mapping) for s in v] for k, v in self.splits.items()}
        return replace(self, declared=declared).with_splits(**mapped)

    def hold_out(self, share: float, seed: int = 13) -> Corpus:
        """Move a fixed, seeded share of ``train`` to ``dev``; an error if there is a dev split already."""
        if "dev" in self.splits:
            raise DataError(f"corpus '{self.name}' already has a dev split", fix="omit --hold-out")
        if len(self.train) < 2:
            raise DataError(
                f"corpus '{self.name}' has {len(self.train)} labelled sentence{'' if self.train else 's'}: "
                "there is none to hold out",
                expected="two or more in train",
                fix="label more, or train without a dev split: omit --hold-out and selection=held_out",
            )
        order = list(range(len(self.train)))
        random.Random(seed).shuffle(order)
        held = set(order[: min(len(order) - 1, max(1, round(share * len(order))))])
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


def split_name(path: str | Path) -> str | None:
    """The split a file name speaks of: ``eng.testa`` → ``dev``, ``wnut17train.conll`` → ``train``.

    Example:
        >>> [split_name(n) for n in ("valid.txt", "test.conll.gz", "notes.txt")]
        ['dev', 'test', None]
    """
    words = re.split(r"[._\-\s]+", Path(path).name.lower())
    named = [_BY_WORD[w] for w in words if w in _BY_WORD]
    if not named:
        named = [_BY_WORD[m.group(1)] for w in words if (m := _ENDING.search(w))]
    return named[0] if named else None


def subset(sentences: Sequence[T], *, ratio: float | None = None, shots: int | None = None, seed: int = 0) -> list[T]:
    """Draw a share (``ratio``) or a number (``shots``) of sentences; with neither, all, in drawing order.

    A seed stands for one permutation of the whole set, and each size is a prefix of it. So every smaller set of a
    seed lies in every larger one, and the points of a learning curve differ by what was added alone.

    Args:
        sentences: the full training set. Its order matters: sort or shuffle it and other sentences are drawn.
        ratio: share of the set in (0, 1], rounded to a whole number of sentences, at least one.
        shots: number of sentences; 0 gives an empty list.
        seed: picks the permutation.

    Raises:
        SetupError: the set is empty or smaller than the size, or both sizes are given.

    Example:
        >>> ten, four = subset(range(20), shots=10, seed=3), subset(range(20), ratio=0.2, seed=3)
        >>> ten[:4] == four
        True
    """
    size = subset_size(len(sentences), ratio=ratio, shots=shots)
    order = list(range(len(sentences)))
    random.Random(seed).shuffle(order)
    return [sentences[i] for i in order[:size]]


def subset_size(available: int, *, ratio: float | None = None, shots: int | None = None) -> int:
    """The number of sentences that :func:`subset` takes from a set of ``available``."""
    if available < 1:
        raise SetupError(
            "a subset was asked of a training set without sentences",
            expected="at least one sentence",
            fix="check the path and the name of the train split",
        )
    if ratio is not None and shots is not None:
        raise SetupError(
            f"both a ratio ({ratio:g}) and a number of shots ({shots}) were given",
            expected="one of the two",
            fix="omit one",
        )
    if ratio is not None:
        if not 0 < ratio <= 1:  # also refuses NaN
            percent = f"write {ratio / 100:g} for {ratio:g} per cent" if 1 < ratio <= 100 else ""
            raise SetupError(
                f"ratio {ratio:g} is not a share of the {available} sentences",
                expected="0 < ratio <= 1",
                fix=percent or "use 1 for all of them",
            )
        return max(1, int(ratio * available + 0.5))
    if shots is not None:
        if not 0 <= shots <= available:
            raise SetupError(
                f"{shots} shots were asked of a training set of {available} sentences",
                expected=f"0 <= shots <= {available}",
                fix="ask for fewer, or use ratio=1 for all of them",
            )
        return shots
    return available
