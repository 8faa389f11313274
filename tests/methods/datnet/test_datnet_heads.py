"""DATNet with one head for both sides: which rows types share, training end to end, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from looped import run_loop
from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.data.labels import LabelSpace
from nershift.errors import ConfigError, Interrupted, SetupError
from nershift.heads.base import Head
from nershift.heads.crf.head import CRFHead
from nershift.methods.datnet.crf_view import CRFView
from nershift.methods.datnet.heads import joint_rows, joint_space
from nershift.run import transfer
from nershift.training.seeding import seed_torch

Make = Callable[..., Any]
ONE_HEAD = {"options": {"heads": "shared", "private_size": 6}}
CONLL = LabelSpace.of(["PER", "LOC", "ORG", "MISC"])


def test_types_of_one_meaning_have_the_rows_of_the_target() -> None:
    ours = LabelSpace.of(["person", "geo-loc", "company", "movie"])
    rows = joint_rows(ours, {"news": CONLL}, {"geo-loc": "LOC"})
    assert rows == {
        "news": {
            "PER": "person",
            "LOC": "geo-loc",
            "ORG": "source: organisation",
            "MISC": "source: miscellaneous",
        }
    }
    joint = joint_space(ours, rows)
    assert set(joint.types) == {*ours.types, "source: organisation", "source: miscellaneous"}
    assert joint.scheme == ours.scheme


def test_sources_share_rows_among_themselves() -> None:
    ours = LabelSpace.of(["person", "zone"])
    other = LabelSpace.of(["location", "organization", "drug"])
    rows = joint_rows(ours, {"a": CONLL, "b": other}, {"zone": "LOC"})
    assert rows["b"]["location"] == rows["a"]["LOC"] == "zone"
    assert rows["b"]["organization"] == rows["a"]["ORG"] == "source: organisation"
    assert rows["b"]["drug"] not in rows["a"].values()


def test_a_type_that_is_said_to_mean_another_leaves_its_name_to_nobody() -> None:
    """The source has a LOC of its own, which is not the target's."""
    rows = joint_rows(LabelSpace.of(["LOC"]), {"a": LabelSpace.of(["LOC", "GPE"])}, {"LOC": "GPE"})
    assert rows["a"] == {"GPE": "LOC", "LOC": "source: location"}


@pytest.mark.parametrize(
    ("target", "source", "same", "message"),
    [
        (["geo", "city"], ["LOC"], {"geo": "LOC", "city": "LOC"}, "'city' and 'geo' of the target .* 'LOC'"),
        (["PER", "person"], ["PER"], {}, "of the target"),
        (["drug", "PER"], ["LOC", "location", "PER"], {}, "'LOC' and 'location' of a source"),
        (["drug"], ["LOC", "PER"], {}, "no type of the sources .LOC, PER. means the same"),
    ],
)
def test_rows_that_cannot_be_shared_are_refused(
    target: list[str], source: list[str], same: dict[str, str], message: str
) -> None:
    with pytest.raises(SetupError, match=message) as caught:
        joint_rows(LabelSpace.of(target), {"a": LabelSpace.of(source)}, same)
    assert "--same" in str(caught.value)


@pytest.fixture
def pair(heterogeneous: list[Corpus]) -> tuple[Corpus, Corpus]:
    """News under short names, and clinic: some types in common, some not."""
    news = heterogeneous[0].mapped({"person": "PER"})
    assert "PER" in news.types
    assert set(news.types) - {"PER"} != set(heterogeneous[-1].types) - {"person"}
    return news, heterogeneous[-1]


def test_like_types_train_the_same_rows(make_method: Make, pair: tuple[Corpus, Corpus]) -> None:
    model = make_method("datnet", [pair[0]], pair[1], ONE_HEAD).train(None).model
    ours, theirs = model.head("target"), model.source.head("shared")
    assert isinstance(ours, CRFView)
    assert isinstance(theirs, CRFView)
    assert ours.space.types == pair[1].types
    assert theirs.space.types == pair[0].types
    assert ours.transitions is theirs.transitions
    # Nobody else: what a head may be on the GPU (MOST_TAGS) is asked of each side's own tags.
    assert [m for m in model.modules() if isinstance(m, Head)] == [ours, theirs]
    rows = {t: int(ours.project.rows[ours.space.index[f"B-{t}"]]) for t in ours.space.types}
    others = {t: int(theirs.project.rows[theirs.space.index[f"B-{t}"]]) for t in theirs.space.types}
    common = {(t, o) for t in rows for o in others if rows[t] == others[o]}
    assert ("person", "PER") in common
    names = {"PER": "person"}
    assert common == {(names.get(o, o), o) for o in others if names.get(o, o) in rows}


def test_where_all_types_agree_views_change_nothing(make_method: Make, homogeneous: list[Corpus]) -> None:
    """The same text with a type renamed in the source is trained as with the plain head."""
    plain, target = homogeneous[0], homogeneous[-1]
    renamed = plain.mapped({"person": "PER"})
    found = []
    for source in (plain, renamed):
        stage = make_method("datnet", [source], target, ONE_HEAD).train(None)
        stage.model.train()
        seed_torch(1)
        stage.gradients(stage.draw(0, 0, 1), torch.Tensor.backward)
        found.append({n: p.grad for n, p in stage.model.named_parameters() if p.grad is not None})
    assert isinstance(stage.model.source.head("shared"), CRFView)
    assert type(stage.model.head("target")) is CRFHead
    assert set(found[0]) == set(found[1])
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, rtol=1e-5, atol=1e-6)


def test_every_source_has_its_view(make_method: Make, heterogeneous: list[Corpus]) -> None:
    *sources, target = heterogeneous
    stage = make_method("datnet", sources, target, ONE_HEAD).train(None)
    heads = dict(stage.model.source.named_heads())
    assert set(heads) == {c.name for c in sources}
    for corpus in sources:
        assert heads[corpus.name].space == corpus.label_space("BIOES")
        assert heads[corpus.name].starts is stage.model.head("target").starts
    for step in range(6):
        stage.gradients(stage.draw(step, 0, 1), torch.Tensor.backward)


@pytest.mark.parametrize("variant", ["F", "P"])
def test_the_tagger_that_is_kept_has_a_plain_decoder(
    tiny: dict[str, Any], pair: tuple[Corpus, Corpus], tmp_path: Path, variant: str
) -> None:
    theirs = next(t for t in pair[0].types if t != "PER" and t not in pair[1].types)
    ours = next(t for t in pair[1].types if t != "person" and t not in pair[0].types)
    settings = merge(ONE_HEAD, {"options": {"variant": variant}, "head": {"same": {ours: theirs}}})
    run = transfer("datnet", pair[1], [pair[0]], out=tmp_path / "run", config=merge(tiny, settings), quiet=True)
    tagger = run.tagger()
    head = tagger.model.head("target")
    assert type(head) is CRFHead
    assert head.space.types == pair[1].types
    gold, predicted = run.predictions()
    assert [s.spans for s in tagger.tag_sentences(gold)] == [s.spans for s in predicted]


def test_the_kept_model_predicts_what_the_trained_one_does(
    make_method: Make, pair: tuple[Corpus, Corpus], tmp_path: Path
) -> None:
    method = make_method("datnet", [pair[0]], pair[1], merge(ONE_HEAD, {"train": {"max_steps": 7}}))
    stage = method.train(None)
    run_loop(stage, tmp_path / "run")
    kept = method.finish(stage.model)
    assert type(kept.head("target")) is CRFHead
    asked = [kept.predict("target", pair[1].test, confidence=True)]
    asked.append(stage.model.predict("target", pair[1].test, confidence=True))
    assert asked[0] == asked[1]


def test_a_resumed_run_ends_with_the_same_weights(
    make_method: Make, pair: tuple[Corpus, Corpus], tmp_path: Path
) -> None:
    settings = merge(ONE_HEAD, {"train": {"max_steps": 7}})

    def stage() -> Any:
        return make_method("datnet", [pair[0]], pair[1], settings).train(None)

    whole = run_loop(stage(), tmp_path / "whole")
    for stop in (2, 5):
        with pytest.raises(Interrupted):
            run_loop(stage(), tmp_path / "cut", stop_after=stop)
    resumed = run_loop(stage(), tmp_path / "cut")
    assert set(resumed) == set(whole)
    assert all(torch.equal(resumed[n], value) for n, value in whole.items())


@pytest.mark.parametrize(
    ("settings", "place", "message"),
    [
        ({"head": {"same": {"person": "PRE"}}}, "--same", "did you mean 'PER'"),
        ({"head": {"same": {"persn": "PER"}}}, "--same", "did you mean 'person'"),
        (
            {"head": {"same": {"person": "PER"}}, "options": {"heads": "separate"}},
            "--same",
            "of its own",
        ),
        ({"head": {"kind": "softmax"}}, "config.head.kind", "crf"),
    ],
)
def test_impossible_settings_are_refused_before_the_first_batch(
    make_method: Make, pair: tuple[Corpus, Corpus], settings: dict[str, Any], place: str, message: str
) -> None:
    with pytest.raises((ConfigError, SetupError), match=message) as caught:
        make_method("datnet", [pair[0]], pair[1], merge(ONE_HEAD, settings)).check()
    assert caught.value.place == place


def test_other_heads_are_shared_whole_or_not_at_all(make_method: Make, homogeneous: list[Corpus]) -> None:
    method = make_method("datnet", homogeneous[:1], homogeneous[-1], merge(ONE_HEAD, {"head": {"kind": "softmax"}}))
    method.check()
    model = method.train(None).model
    assert model.source.head("shared") is model.head("target")


def test_nothing_in_common_is_refused_and_the_target_alone_does_not_mind(
    make_method: Make, pair: tuple[Corpus, Corpus]
) -> None:
    strange = pair[0].mapped({t: f"x{i}" for i, t in enumerate(pair[0].types)})
    with pytest.raises(SetupError, match=r"no type of the sources \(x0"):
        make_method("datnet", [strange], pair[1], ONE_HEAD).check()
    alone = merge(ONE_HEAD, {"options": {"variant": "base"}, "head": {"same": {"person": "PER"}}})
    make_method("datnet", [], pair[1], alone).check()


@pytest.mark.parametrize(
    ("method", "config", "source_types", "expected"),
    [
        ("auto-datnet", {}, {}, True),
        ("auto-datnet", {"head": {"kind": "softmax"}}, {}, False),
        ("auto-datnet", {"options": {"heads": "separate"}}, {}, False),
        ("auto-datnet", {}, {"organisation": "a", "person": "b", "place": "c", "date": "d"}, False),
        ("datnet", {}, {}, False),
        ("datnet", {"options": {"heads": "auto"}}, {}, True),
        ("datnet", {"options": {"heads": "auto", "variant": "P"}}, {}, False),
    ],
)
def test_left_to_choose_full_sharing_has_one_head_where_types_are_alike(
    make_method: Make,
    heterogeneous: list[Corpus],
    method: str,
    config: dict[str, Any],
    source_types: dict[str, str],
    expected: bool,
) -> None:
    source = heterogeneous[0].mapped(source_types)
    made = make_method(method, [source], heterogeneous[-1], merge({"options": {"private_size": 6}}, config))
    made.check()
    assert made.one_head == expected
    kind = type(made.train(None).model.head("target"))
    assert (kind is CRFView) == expected
