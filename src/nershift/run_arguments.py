"""The corpora and amounts that Python callers give to a run, checked first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path

from nershift.arguments import as_block, found
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.errors import SetupError


def check_corpus(given: object, place: str) -> None:
    if isinstance(given, Corpus):
        return
    path = f"nershift.read_corpus({str(given)!r})" if isinstance(given, (str, Path)) else "nershift.read_corpus(path)"
    raise SetupError(found(given), place=place, expected="a Corpus", fix=path)


def check_sources(given: object) -> None:
    if isinstance(given, (Corpus, str, Path)) or not isinstance(given, Sequence):
        what = f"Corpus '{given.name}' by itself" if isinstance(given, Corpus) else found(given)
        fix = "sources=[corpus]" if isinstance(given, Corpus) else "sources=[nershift.read_corpus(path), …]"
        raise SetupError(what, place="sources", expected="a list of Corpus values", fix=fix)
    for i, corpus in enumerate(given):
        check_corpus(corpus, f"sources[{i}]")


def check_amounts(shots: object, ratio: object) -> None:
    whole = isinstance(shots, Integral) and not isinstance(shots, bool)
    if shots is not None and not whole:
        raise SetupError(
            found(shots),
            place="shots",
            expected="a whole number of sentences",
            fix="ratio= for a share of them",
        )
    if ratio is not None and (isinstance(ratio, bool) or not isinstance(ratio, Real)):
        raise SetupError(found(ratio), place="ratio", expected="a number from 0 to 1")


def as_raw(given: object) -> Mapping[str, Sequence[Sentence]]:
    """Unlabelled sentences by domain."""
    expected = "a dict: the name of a domain → its sentences"
    for name, rows in (texts := as_block(given, "raw", expected)).items():
        if isinstance(rows, str) or not isinstance(rows, Sequence):
            raise SetupError(found(rows), place=f"raw[{name!r}]", expected="a list of Sentence values, or a RawText")
    return texts
