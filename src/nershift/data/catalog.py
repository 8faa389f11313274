"""The corpora of the papers by name: what they should hold, where they come from, where a local copy lies.

Nothing is downloaded. Copies lie in one folder, named by the environment variable ``NERSHIFT_DATA``, as
``<name>/train.conll.gz`` (and ``dev``, ``test``, ``raw.txt.gz``), in any format the readers know.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from nershift.data.corpus import Corpus
from nershift.errors import ConfigError, DataError, nearest

VARIABLE = "NERSHIFT_DATA"
_ACE = "ace2005"
_SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Counts:
    """What one split should hold."""

    sentences: int
    mentions: int
    tokens: int


@dataclass(frozen=True)
class Entry:
    """One corpus. ``counts`` is empty where the text is licensed, ``raw`` counts raw sentences."""

    name: str
    language: str
    domain: str
    types: tuple[str, ...]
    counts: Mapping[str, Counts]
    raw: int
    licence: str
    origin: str
    note: str

    @property
    def folder(self) -> str:
        """Where it lies in the data folder; the genres of ACE 2005 share one folder."""
        return _ACE if self.name.startswith(f"{_ACE}_") else self.name

    @property
    def part(self) -> str:
        """Which part of that folder it is, where corpora share one."""
        return self.name.removeprefix(f"{self.folder}_") if self.folder != self.name else ""


@cache
def catalog() -> Mapping[str, Entry]:
    """All entries by name.

    Example:
        >>> catalog()["crossner_ai"].counts["train"].sentences
        100
    """
    return MappingProxyType({row["name"]: _entry(row) for row in _table("catalog.tsv")})


def _table(name: str) -> list[dict[str, str]]:
    text = (resources.files("nershift.data") / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.split("\n"), delimiter="\t", quoting=csv.QUOTE_NONE))


def _entry(row: dict[str, str]) -> Entry:
    numbers = zip(*(row[key].split("/") for key in ("sentences", "mentions", "tokens")), strict=True)
    counts = {
        split: Counts(*(int(n) for n in three))
        for split, three in zip(_SPLITS, numbers, strict=True)
        if three[0] != "-"
    }
    return Entry(
        name=row["name"],
        language=row["language"],
        domain=row["domain"],
        types=tuple(t for t in row["types"].split(",") if t),
        counts=MappingProxyType(counts),
        raw=int(row["raw"]) if row["raw"] != "-" else 0,
        licence=row["licence"],
        origin=row["origin"],
        note=row["note"],
    )


def entry(name: str) -> Entry:
    if name not in catalog():
        raise ConfigError(
            f"no corpus '{name}' in the catalogue{nearest(name, catalog())}",
            expected=", ".join(catalog()),
            fix="name one of these, or give the path of your own files",
        )
    return catalog()[name]


def locate(name: str) -> Path:
    """The folder with the local copy of a corpus.

    Raises:
        DataError: no data folder is set or the corpus is not in it; the message says where to get it.
    """
    wanted = entry(name)
    where = f"get it from: {wanted.origin} (licence: {wanted.licence})"
    root = os.environ.get(VARIABLE, "")
    if not root:
        raise DataError(
            f"the environment variable {VARIABLE} is not set, so '{name}' cannot be found",
            expected=f"{VARIABLE} = a folder that holds '{wanted.folder}/'",
            fix=f"export {VARIABLE}=/path/to/corpora; {where}",
        )
    folder = Path(root) / wanted.folder
    if not folder.is_dir():
        raise DataError(
            f"there is no local copy of '{name}'",
            place=str(folder),
            expected="a folder with train, dev and test files, such as train.conll.gz",
            fix=where,
        )
    return folder


def differences(corpus: Corpus) -> list[str]:
    """How a corpus differs from what the catalogue expects; empty when all counts agree."""
    wanted = entry(corpus.name)
    differing = []
    for split, expected in wanted.counts.items():
        sentences = corpus.splits.get(split, ())
        mentions, tokens = sum(len(s.spans) for s in sentences), sum(len(s) for s in sentences)
        have = Counts(len(sentences), mentions, tokens)
        for field in ("sentences", "mentions", "tokens"):
            here, there = getattr(have, field), getattr(expected, field)
            if here != there:
                differing.append(f"{split}: {here} {field}, {there} expected")
    raw = len(corpus.splits.get("raw", ()))
    if raw != wanted.raw:
        differing.append(f"raw: {raw} sentences, {wanted.raw} expected")
    if wanted.counts and corpus.types != tuple(sorted(wanted.types)):
        differing.append(f"types: {', '.join(corpus.types)}; expected: {', '.join(sorted(wanted.types))}")
    return differing
