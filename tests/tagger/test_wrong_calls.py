"""Wrong calls of a tagger, unfinished runs and other settings are messages with a place and a way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nershift import Ensemble, Run, Tagger
from nershift.data.corpus import Corpus
from nershift.errors import CheckpointError, NershiftError
from nershift.run import transfer

TINY: dict[str, Any] = {
    "encoder": {"words": {"size": 8}, "chars": {"use": False}, "recurrent": {"size": 8}},
    "train": {"updates": 2, "batch_size": 4},
}


@pytest.fixture(scope="module")
def folder(make_corpus: Callable[..., Corpus], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "r"
    transfer("target_only", make_corpus("news"), out=out, config=TINY, quiet=True, report=False)
    return out


WRONG: dict[str, tuple[Callable[[Any], object], str]] = {
    "nothing": (lambda t: t(None), "tagger: found NoneType None"),
    "a number": (lambda t: t(3), "tagger: found int 3"),
    "bytes": (lambda t: t(b"Ada"), "tagger: found bytes b'Ada'"),
    "a dict": (lambda t: t({"text": "Ada"}), "tagger: found dict"),
    "a list of nothing": (lambda t: t(["Ada", None]), "text 2: found NoneType None"),
    "adaptive": (lambda t: t.adaptive(None), "tagger: found NoneType None"),
    "no tokens": (lambda t: t.tag_tokens(None), "tokens: found NoneType None"),
    "text as tokens": (lambda t: t.tag_tokens("Ada left"), "tokens: found str"),
    "text as a sentence": (lambda t: t.tag_tokens(["Ada left"]), "tokens: found str"),
    "numbers as tokens": (lambda t: t.tag_tokens([["a"], [0]]), "tokens of sentence 2: found int 0"),
    "load": (lambda _: Tagger.load(None), "Tagger.load: found NoneType None"),  # type: ignore[arg-type]
    "save": (lambda t: t.save(None), "Tagger.save: found NoneType None"),
    "open": (lambda _: Run.open(None), "Run.open: found NoneType None"),  # type: ignore[arg-type]
    "an ensemble": (lambda _: Ensemble([None]), "Ensemble: found NoneType None"),  # type: ignore[list-item]
    "a folder by itself": (lambda _: Ensemble.load("r"), "Ensemble.load: found str 'r'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_was_given_is_named(name: str, folder: Path) -> None:
    call, begins = WRONG[name]
    with pytest.raises(NershiftError) as caught:
        call(Tagger.load(folder))
    assert str(caught.value).startswith(begins)
    assert "expected:" in str(caught.value)


def test_any_iterable_of_texts_is_tagged(folder: Path) -> None:
    tagger, texts = Tagger.load(folder), ["Ada left.", "Leeds"]
    assert tagger(text for text in texts) == tagger(texts) == Ensemble([tagger])(tuple(texts))  # type: ignore[call-overload]


def test_an_unfinished_run_is_to_be_resumed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes((folder / "config.yaml").read_bytes())
    with pytest.raises(CheckpointError, match=r"not finished(.|\n)*resume it"):
        Tagger.load(tmp_path)
    (tmp_path / "config.yaml").unlink()
    with pytest.raises(CheckpointError, match="no model here"):
        Tagger.load(tmp_path)


def test_other_settings_are_named_with_their_section(folder: Path, make_corpus: Callable[..., Corpus]) -> None:
    other = {**TINY, "train": {**TINY["train"], "lr": 0.25}, "pretrain": {"lr": 0.125}}
    with pytest.raises(CheckpointError) as caught:
        transfer("target_only", make_corpus("news"), out=folder, config=other, quiet=True)
    assert {"+ train.lr: 0.25", "+ pretrain.lr: 0.125"} <= {line.strip() for line in caught.value.found.split("\n")}
    assert sum("lr" in line for line in caught.value.found.split("\n")) == 4


def test_settings_of_an_earlier_run_that_are_damaged(folder: Path, make_corpus: Callable[..., Corpus]) -> None:
    before = (folder / "config.yaml").read_bytes()
    for damaged in (b"\xff\xfe", b"a: [", b"- 1"):
        (folder / "config.yaml").write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"config\.yaml: not readable YAML(.|\n)*--overwrite"):
            transfer("target_only", make_corpus("news"), out=folder, config=TINY, quiet=True)
    (folder / "config.yaml").write_bytes(before)
