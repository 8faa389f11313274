"""What Python callers hand to :func:`nershift.transfer` and its kin: found and expected, before anything else fails."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path

from nershift.data.corpus import Corpus
from nershift.errors import SetupError


def check_corpus(given: object, place: str) -> None:
    if isinstance(given, Corpus):
        return
    path = f"nershift.read_corpus({str(given)!r})" if isinstance(given, (str, Path)) else "nershift.read_corpus(path)"
    raise SetupError(_found(given), place=place, expected="a Corpus", fix=path)


def check_sources(given: object) -> None:
    if isinstance(given, (Corpus, str, Path)) or not isinstance(given, Sequence):
        found = f"Corpus '{given.name}' by itself" if isinstance(given, Corpus) else _found(given)
        fix = "sources=[corpus]" if isinstance(given, Corpus) else "sources=[nershift.read_corpus(path), …]"
        raise SetupError(found, place="sources", expected="a list of Corpus values", fix=fix)
    for i, corpus in enumerate(given):
        check_corpus(corpus, f"sources[{i}]")


def check_amounts(shots: object, ratio: object) -> None:
    whole = isinstance(shots, Integral) and not isinstance(shots, bool)
    if shots is not None and not whole:
        raise SetupError(
            _found(shots),
            place="shots",
            expected="a whole number of sentences",
            fix="ratio= for a share of them",
        )
    if ratio is not None and (isinstance(ratio, bool) or not isinstance(ratio, Real)):
        raise SetupError(_found(ratio), place="ratio", expected="a number from 0 to 1")


def _found(given: object) -> str:
    return f"found {type(given).__name__} {given!r:.60}"
