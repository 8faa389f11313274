"""No sentence that a tagger is scored on is in the unlabelled text that any method reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nershift.config import merge
from nershift.data.apart import Without, fingerprints, without
from nershift.data.corpus import Corpus
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.run import Request, resolve, transfer

LINES = [f"sentence number {i} of the text" for i in range(40)]
SCORED = [3, 4, 17, 39]


def test_what_is_left_is_what_a_plain_filter_leaves(tmp_path: Path) -> None:
    path = tmp_path / "raw.txt"
    path.write_text("\n".join(LINES) + "\n")
    scored = fingerprints(Sentence.of(LINES[i].upper().split()) for i in SCORED)
    for text in (RawText(path), [Sentence.of(line.split()) for line in LINES]):
        kept = without(text, scored)
        plain = [tuple(line.split()) for i, line in enumerate(LINES) if i not in SCORED]
        assert isinstance(kept, Without)
        assert kept.removed.tolist() == SCORED
        assert [s.tokens for s in kept] == plain
        assert len(kept) == len(plain)
        for part in (slice(0, 3), slice(2, 9), slice(10, 36), slice(None, None, 5), slice(5, 5), slice(-2, None)):
            assert [s.tokens for s in kept[part]] == plain[part]
        assert [kept[i].tokens for i in range(-len(plain), len(plain))] == [*plain, *plain]
        with pytest.raises(IndexError):
            kept[len(plain)]


def test_a_text_without_such_sentences_is_itself() -> None:
    text = [Sentence.of(["a"]), Sentence.of(["."])]
    assert without(text, fingerprints([Sentence.of(["b"]), Sentence.of(["!"])])) is text


@pytest.fixture
def leaking(make_corpus: Callable[..., Corpus]) -> tuple[Corpus, Corpus, list[Sentence], list[Sentence]]:
    """Source, target, raw text, and which of its sentences are in the target's dev and test splits."""
    news, target = make_corpus("news", seed=1), make_corpus("news", train=0, dev=5, test=20, seed=2)
    known = fingerprints([*target.dev, *target.test])
    source = replace(news, name="other").with_splits(
        **{k: without(v, known) for k, v in news.splits.items() if k != "test"}
    )
    fresh = [s.with_spans(()) for s in source.train]
    leaked = [Sentence.of([*map(str.upper, s.tokens), "!"]) for s in (*target.dev, *target.test)]
    return source, target, [*fresh[:20], *leaked, *fresh[20:]], leaked


@pytest.mark.parametrize("method", ["dann", "selftrain", "crosslm", "bilm", "teacher_student"])
def test_no_method_sees_scored_sentences(
    method: str, leaking: tuple[Any, ...], tiny: dict[str, Any], tmp_path: Path
) -> None:
    source, target, raw, leaked = leaking
    quick = {"train": {"updates": 4}, "pretrain": {"epochs": 20}}
    if method == "crosslm":
        quick["encoder"] = {"recurrent": {"cell": "lstm"}}
    config = merge(tiny, quick)
    request = Request(method, resolve(method, config), [source], target, {"target": raw})
    setup = request.build_method().setup
    assert setup.left_out == {"target": len(leaked)}
    assert not fingerprints(setup.raw["target"]) & fingerprints(leaked)
    run = transfer(
        method, target, [source], out=tmp_path / "run", raw={"target": raw}, config=config, quiet=True, report=False
    )
    assert any(f"{len(leaked)} sentences of the raw text 'target'" in note for note in run.metrics["remarks"])


def test_training_sentences_read_as_text_are_checked_too(leaking: tuple[Any, ...], tiny: dict[str, Any]) -> None:
    source, target, raw, leaked = leaking
    target = target.with_splits(train=raw)
    for method in ("selftrain", "dann"):
        built = Request(method, resolve(method, tiny), [source], target).build_method()
        texts = built.texts()["target"] if method == "selftrain" else built._unlabelled()
        assert len(texts) == len(raw) - len(leaked)
        assert not fingerprints(texts) & fingerprints(leaked)


def test_what_training_text_lacked_is_told(leaking: tuple[Any, ...], tiny: dict[str, Any], tmp_path: Path) -> None:
    source, target, raw, leaked = leaking
    config = merge(tiny, {"train": {"updates": 4}, "pretrain": {"epochs": 20}})
    target = target.with_splits(train=raw)
    run = transfer("selftrain", target, [source], out=tmp_path / "run", config=config, quiet=True, report=False)
    assert any(f"{len(leaked)} training sentences are in" in note for note in run.metrics["remarks"])
    dann = Request("dann", resolve("dann", tiny), [source], target).build_method()
    model = dann.new_model(source.train, {"target": dann.source_space(source)})
    assert any(f"{len(leaked)} training sentences are in" in note for note in dann.run_notes(model))


def test_a_raw_split_is_checked_too(leaking: tuple[Any, ...], tiny: dict[str, Any]) -> None:
    source, target, raw, leaked = leaking
    request = Request("selftrain", resolve("selftrain", tiny), [source], target.with_splits(raw=raw))
    setup = request.setup
    assert setup.left_out == {target.name: len(leaked)}
    assert len(setup.target.splits["raw"]) == len(raw) - len(leaked)  # type: ignore[union-attr]


def test_other_training_sentences_lose_their_labels(make_corpus: Callable[..., Corpus], tiny: dict[str, Any]) -> None:
    target = make_corpus("clinic", train=30)
    request = Request("target_only", resolve("target_only", tiny), (), target, shots=10)
    rest = request.setup.unlabelled
    seen = fingerprints([*target.dev, *target.test])
    few = {id(s) for s in request.setup.target.train}  # type: ignore[union-attr]
    others = [s for s in target.train if id(s) not in few and not fingerprints([s]) & seen]
    assert [s.tokens for s in rest] == [s.tokens for s in others]
    assert not any(s.spans for s in rest)
