"""Wrong arguments of the public functions are messages with a place, never errors of Python itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nershift
from nershift.data.corpus import Corpus
from nershift.errors import NershiftError

CORPUS = Corpus("toy", {"train": (nershift.Sentence.of(["Rome"], [(0, 1, "LOC")]),)})


def train(**given: Any) -> None:
    nershift.transfer(**({"method": "target_only", "target": CORPUS, "out": "r"} | given))


# Name → the call, and how its message begins.
WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "settings as text": (lambda: train(config="x"), "config: found str 'x'"),
    "settings as a list": (lambda: train(config=[1]), "config: found list [1]"),
    "no method": (lambda: train(method=None), "name of the method: found NoneType None"),
    "no folder": (lambda: train(out=None), "out: found NoneType None"),
    "start as a number": (lambda: train(start=3), "start: found int 3"),
    "raw as text": (lambda: train(raw="x"), "raw: found str 'x'"),
    "raw of a domain as text": (lambda: train(raw={"a": "x"}), "raw['a']: found str 'x'"),
    "raw of a domain as None": (lambda: train(raw={"a": None}), "raw['a']: found NoneType None"),
    "no sources": (lambda: nershift.pretrain("finetune", None, out="r"), "sources: found NoneType"),  # type: ignore[arg-type]
    "pretrain nothing": (lambda: nershift.pretrain(None, [CORPUS], out="r"), "name of the method: found"),  # type: ignore[arg-type]
    "pretrain nowhere": (lambda: nershift.pretrain("finetune", [CORPUS], out=None), "out: found NoneType"),  # type: ignore[arg-type]
    "adapt nothing": (lambda: nershift.adapt(None, CORPUS, out="r"), "start: found NoneType None"),  # type: ignore[arg-type]
    "resume nothing": (lambda: nershift.resume(None, CORPUS, updates=1), "folder: found NoneType None"),  # type: ignore[arg-type]
    "read nothing": (lambda: nershift.read_corpus(None), "read_corpus: found NoneType None"),  # type: ignore[arg-type]
    "read a number": (lambda: nershift.read_corpus(3), "read_corpus: found int 3"),  # type: ignore[arg-type]
    "read a list": (lambda: nershift.read_corpus(["a"]), "read_corpus: found list ['a']"),  # type: ignore[arg-type]
    "write nothing": (lambda: nershift.write_corpus("o", None), "write_corpus: found NoneType None"),  # type: ignore[arg-type]
    "write nowhere": (lambda: nershift.write_corpus(None, CORPUS), "write_corpus: found NoneType None"),  # type: ignore[arg-type]
    "compare nothing": (lambda: nershift.compare(None, None), "compare: found NoneType None"),  # type: ignore[arg-type]
    "no domain": (lambda: nershift.builtin_corpus(None), "no built-in domain 'None'"),  # type: ignore[arg-type]
    "text as tokens": (lambda: nershift.Sentence.of("Ada left"), "tokens: found str 'Ada left'"),
    "no tokens": (lambda: nershift.Sentence.of(None), "tokens: found NoneType None"),  # type: ignore[arg-type]
    "a span of nothing": (lambda: nershift.Sentence.of(["a"], [None]), "spans: found list [None]"),  # type: ignore[list-item]
    "a span of words": (lambda: nershift.Sentence.of(["a"], [(0, "a", "X")]), "spans: found list"),  # type: ignore[list-item]
    "types to nothing": (lambda: CORPUS.mapped("x"), "mapped: found str 'x'"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_what_was_given_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, begins = WRONG[name]
    with pytest.raises(NershiftError) as caught:
        call()
    assert str(caught.value).startswith(begins)
    assert "expected:" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_format_that_is_no_name(tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text("Rome B-LOC\n")
    for path in (tmp_path, tmp_path / "train.conll"):
        with pytest.raises(NershiftError, match="name of the format: found int 3"):
            nershift.read_corpus(path, format=3)  # type: ignore[arg-type]


def test_completion_offers_what_is_public() -> None:
    offered = {name for name in dir(nershift) if not name.startswith("__")}
    assert offered == set(nershift.__all__)
