"""One label set for all domains: which type of each corpus is a person, organisation, location or other name."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from nershift.data.catalog import catalog, entry
from nershift.errors import ConfigError


@cache
def _homogeneous() -> dict[str, str]:
    with Path(__file__).with_name("homogeneous.tsv").open(encoding="utf-8", newline="") as file:
        return {row["type"]: row["mapped"] for row in csv.DictReader(file, delimiter="\t")}


def homogeneous_map(name: str) -> dict[str, str]:
    """Types of a corpus → PER, ORG, LOC, MISC or ``O``, for methods that need one label space in all domains.

    Example:
        >>> homogeneous_map("wnut2017")["corporation"]
        'ORG'

    Raises:
        ConfigError: the corpus has types without a counterpart in the shared label space.
    """
    table = _homogeneous()
    types = entry(name).types
    missing = [t for t in types if t not in table]
    if missing or not types:
        usable = [n for n, e in catalog().items() if e.types and all(t in table for t in e.types)]
        raise ConfigError(
            f"'{name}' cannot share a label space of PER, ORG, LOC and MISC: no counterpart for"
            f" {', '.join(missing) or 'unlabelled text'}",
            expected=f"one of: {', '.join(usable)}",
            fix="use a method for differing label spaces, or give your own label map",
        )
    return {t: table[t] for t in types}
