from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nershift.data.corpus import Corpus
from nershift.data.folds import folds
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence
from nershift.evaluation.metrics import score
from nershift.heads.base import make_head, start_from_best
from nershift.heads.crf.head import CRFHead
from nershift.model_store import load_model
from nershift.server import learning
from nershift.server.learning import cross_validate, learn, prepare


def ignore(share: float, message: str) -> None:
    assert 0 <= share <= 1


def test_a_new_type_is_learned_and_old_ones_stay(
    small_model: Path, make_corpus: Callable[..., Corpus], tmp_path: Path
) -> None:
    clinic = make_corpus("clinic", train=20, test=40)
    news = make_corpus("news", test=40, seed=5)
    before = small_model.stat().st_mtime_ns
    tagger = learn(small_model, clinic.train, tmp_path, 30, ignore)
    assert tagger.types == ("drug", "person", "place")
    made = score(clinic.test, tagger.tag_sentences(clinic.test))
    assert made.by_type["drug"].f1 > 0.8
    assert score(news.test, tagger.tag_sentences(news.test)).f1 > 0.5
    assert small_model.stat().st_mtime_ns == before
    assert tagger.meta["labelled"] == 20


def test_learning_is_repeatable(small_model: Path, make_corpus: Callable[..., Corpus], tmp_path: Path) -> None:
    clinic = make_corpus("clinic", train=6)
    one, two = (learn(small_model, clinic.train, tmp_path / x, 1e6, ignore) for x in "ab")
    for a, b in zip(one.model.parameters(), two.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_pretrained_model_starts_with_the_nearest_decoder(pretrained_model: Path) -> None:
    model, _ = load_model(pretrained_model)
    clinic = model.head("clinic")
    made = prepare(model, [Sentence.of(["zolpirex"], [(0, 1, "drug")])]).head("target")
    assert made is clinic  # its types are known, so it is used as it is
    model, _ = load_model(pretrained_model)
    fresh = prepare(model, [Sentence.of(["x"], [(0, 1, "planet")])]).head("target")
    assert fresh.types == ("planet",)


def test_types_that_the_model_did_not_predict_come_back_only_if_they_are_labelled(pretrained_model: Path) -> None:
    model, _ = load_model(pretrained_model)
    old = model.deployable("clinic").head("target")
    assert old.types == ("drug", "person", "place")
    for labelled, expected in (("person", ("drug", "person")), ("place", ("drug", "person", "place"))):
        old.restrict(["drug", "person"])
        made = prepare(model.deployable("clinic"), [Sentence.of(["x"], [(0, 1, labelled)])]).head("target")
        assert made.predicted_types == made.types == expected


def test_what_is_known_of_old_tags_is_carried_over() -> None:
    old = make_head("crf", LabelSpace.of(["A", "C"], "BIO"), 4)
    new = make_head("crf", LabelSpace.of(["A", "B", "C"], "BIO"), 4)
    fresh = new.project.weight.detach().clone()
    start_from_best(new, [old], {})
    assert isinstance(old, CRFHead)
    assert isinstance(new, CRFHead)
    for tag, i in new.space.index.items():
        j = old.space.index.get(tag)
        if j is None:
            assert torch.equal(new.project.weight[i], fresh[i])
            continue
        assert torch.equal(new.project.weight[i], old.project.weight[j])
        for other, k in old.space.index.items():
            assert new.transitions[i, new.space.index[other]] == old.transitions[j, k]


def test_other_kinds_start_afresh() -> None:
    old = make_head("crf", LabelSpace.of(["A"]), 4)
    new = make_head("softmax", LabelSpace.of(["A", "B"]), 4)
    before = new.project.weight.detach().clone()
    start_from_best(new, [old], {})
    assert torch.equal(new.project.weight, before)


def test_folds_are_a_partition_and_alike_in_types() -> None:
    sentences = [Sentence.of(["x"], [(0, 1, "AB"[i % 2])]) for i in range(20)]
    parts = folds(sentences, 5)
    assert sorted(i for part in parts for i in part) == list(range(20))
    for part in parts:
        assert sorted(sentences[i].spans[0].label for i in part) == ["A", "A", "B", "B"]
    assert len(folds(sentences[:3], 5)) == 3


def test_cross_validation(
    small_model: Path, make_corpus: Callable[..., Corpus], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(learning._STEPS, "recurrent", (40, 40))
    shares: list[float] = []
    made = cross_validate(
        small_model, make_corpus("clinic", train=15).train, tmp_path, 30, lambda p, m: shares.append(p)
    )
    assert made is not None
    assert made["folds"] >= 2
    assert 0.2 < made["mean"] <= 1.0
    assert shares == sorted(shares)


def test_one_sentence_cannot_be_validated(small_model: Path, tmp_path: Path) -> None:
    assert cross_validate(small_model, [Sentence.of(["Ada"], [(0, 1, "x")])], tmp_path, 5, ignore) is None
