"""Small corpora of several domains, with one label space or one each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nershift.config import build, merge
from nershift.data.builtin import builtin_corpus
from nershift.data.corpus import Corpus
from nershift.methods import METHODS
from nershift.methods.base import Method, Setup
from nershift.run import resolve

SHARED = ("person", "place")


@pytest.fixture(scope="session")
def homogeneous() -> list[Corpus]:
    """Four domains that all have persons and places; use the last as the target."""
    corpora = [_cut(builtin_corpus(d)) for d in ("news", "court", "travel", "clinic")]
    return [c.mapped({t: "O" for t in c.types if t not in SHARED}) for c in corpora]


@pytest.fixture(scope="session")
def heterogeneous() -> list[Corpus]:
    """Four domains with types of their own."""
    return [_cut(builtin_corpus(d)) for d in ("news", "court", "kitchen", "clinic")]


def _cut(corpus: Corpus) -> Corpus:
    return corpus.with_splits(train=corpus.train[:40], dev=corpus.dev[:10], test=corpus.test[:10])


@pytest.fixture
def make_method(tiny: dict[str, Any]) -> Callable[..., Any]:
    """``make_method("metaner", sources, target, settings)``: a method on a tiny model."""

    def make(
        name: str, sources: list[Corpus], target: Corpus | None = None, settings: Any = None, **setup: Any
    ) -> Method:
        config = resolve(name, merge(tiny, settings or {}))
        cls = METHODS[name]
        options = build(cls.Options, config.options)
        return cls(Setup(config, options, target, target.types if target else (), tuple(sources), **setup))

    return make
