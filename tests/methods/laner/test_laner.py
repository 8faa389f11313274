"""LANER end to end: label rows carried over by name, settings refused, folders resumed and adapted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.data.labels import LabelMapping, full_name
from nershift.errors import ConfigError, SetupError
from nershift.methods.base import TARGET
from nershift.methods.laner.head import LabelAwareHead
from nershift.methods.laner.rows import joined_space, nearest_types
from nershift.model import TaggingModel
from nershift.run import adapt, pretrain, resolve, transfer

Make = Callable[..., Any]
QUICK: dict[str, Any] = {
    "encoder": {"kind": "recurrent"},
    "options": {"label_size": 6},
    "train": {"epochs": 1, "max_steps": 4},
    "pretrain": {"epochs": 1, "max_steps": 4},
}


@pytest.fixture
def quick(tiny: dict[str, Any]) -> dict[str, Any]:
    return merge(tiny, QUICK)


def head_of(model: TaggingModel, key: str = TARGET) -> LabelAwareHead:
    head = model.head(key)
    assert isinstance(head, LabelAwareHead)
    return head


def started(
    make_method: Make, sources: list[Corpus], target: Corpus, same: dict[str, str] | None = None, **options: Any
) -> tuple[Any, Any]:
    """The head after the sources and the one made from it for the target."""
    settings = merge(QUICK, {"options": options, "head": {"same": same or {}}})
    method = make_method("laner", sources, target, settings)
    method.check()
    start = method.pretrain().model
    old = head_of(start, "shared")
    with torch.no_grad():  # as if something had been learned
        for p in old.parameters():
            p.add_(torch.randn_like(p))
    return old, head_of(method.prepare_target(start))


def rows_equal(new: LabelAwareHead, old: LabelAwareHead, pairs: dict[str, str]) -> list[bool]:
    out = []
    for mine, theirs in pairs.items():
        a, b = new.space.index[mine], old.space.index[theirs]
        same = [torch.equal(x.weight[a], y.weight[b]) for x, y in
                ((new.labels, old.labels), (new.project, old.project))]  # fmt: skip
        same.append(torch.equal(new.project.bias[a], old.project.bias[b]))
        assert len(set(same)) == 1
        out.append(same[0])
    return out


def test_both_ways_to_a_target_give_one_result(
    heterogeneous: list[Corpus], quick: dict[str, Any], tmp_path: Path
) -> None:
    """In one go, and by a folder that serves any target; the tagger comes back from disk as it was."""
    *sources, target = heterogeneous
    run = transfer("laner", target, sources, out=tmp_path / "run", config=quick, quiet=True)
    folder = pretrain("laner", sources, out=tmp_path / "start", config=quick, quiet=True)
    again = adapt(folder, target, out=tmp_path / "adapted", config=quick, quiet=True)
    assert run.predictions() == again.predictions()
    tagger = run.tagger()
    assert set(target.types) <= set(tagger.types)
    loaded = tagger.tag_sentences(target.test)
    assert [s.spans for s in loaded] == [s.spans for s in run.predictions()[1]]
    for sentence in loaded:
        assert all(0 < (span.score or 0) <= 1 for span in sentence.spans)


def test_it_trains_in_one_domain_without_sources(make_corpus: Make, quick: dict[str, Any], tmp_path: Path) -> None:
    config = merge(quick, {"train": {"epochs": 12, "max_steps": 0}, "options": {"sampling": 0.2, "beam": 2}})
    run = transfer("laner", make_corpus("news"), out=tmp_path / "run", config=config, quiet=True)
    assert list(run.metrics["phases"]) == ["train"]
    assert run.f1 > 0.9


def test_rows_go_with_names_and_unions_keep_the_sources_types(make_method: Make, heterogeneous: list[Corpus]) -> None:
    *sources, target = heterogeneous
    sources = [s.mapped({"person": "PER", "place": "Place"}) if i else s for i, s in enumerate(sources)]
    old, new = started(make_method, sources, target, new_rows="random")
    assert "PER" not in old.space.types  # one row with the first source's person
    assert set(new.space.types) == {t for c in heterogeneous for t in c.types}
    assert all(rows_equal(new, old, {"O": "O", "B-person": "B-person", "I-person": "I-person"}))
    assert torch.equal(new.labels.weight[-1], old.labels.weight[-1])
    fresh = [t for t in target.types if t not in old.space.types]
    assert fresh
    for name, value in old.prefixes.state_dict().items():
        assert torch.equal(new.prefixes.state_dict()[name], value)
    assert torch.equal(new.reader.weight, old.reader.weight)
    assert torch.equal(new.query.weight, old.query.weight)
    for label in fresh:
        assert not any(torch.equal(new.labels.weight[new.space.index[f"B-{label}"]], row) for row in old.labels.weight)


def test_new_rows_start_as_the_nearest_known_type_or_as_told(make_method: Make, heterogeneous: list[Corpus]) -> None:
    *sources, target = heterogeneous
    old, new = started(make_method, sources, target, labels="target", new_rows="nearest")
    assert new.space.types == tuple(sorted(target.types))
    fresh = [t for t in target.types if t not in old.space.types]
    for label in fresh:
        mine = new.project.weight[new.space.index[f"B-{label}"]].detach()
        apart = [float((mine - old.project.weight.detach()[old.space.index[f"B-{t}"]]).norm()) for t in old.space.types]
        assert sum(distance < 0.05 * float(mine.norm()) for distance in apart) == 1
    told = {fresh[0]: old.space.types[0]}
    old, new = started(make_method, sources, target, same=told)
    assert rows_equal(new, old, {f"I-{fresh[0]}": f"I-{told[fresh[0]]}"}) == [True]
    assert told[fresh[0]] not in new.space.types


@pytest.mark.parametrize(
    ("head", "option", "expected"),
    [
        ("auto", "auto", "from their names"),
        ("prototypes", "auto", "from prototypes of the labelled sentences"),
        ("random", "auto", "at random"),
        ("auto", "prototypes", "from prototypes of the labelled sentences"),
        ("prototypes", "nearest", "as "),
    ],
)
def test_new_rows_start_as_the_head_or_the_option_says(
    head: str, option: str, expected: str, make_method: Make, heterogeneous: list[Corpus]
) -> None:
    *sources, target = heterogeneous
    settings = merge(QUICK, {"options": {"new_rows": option}, "head": {"new_rows": head}})
    method = make_method("laner", sources, target, settings)
    method.check()
    start = method.pretrain().model
    known = head_of(start, "shared").types
    model = method.prepare_target(start)
    new = head_of(model)
    assert set(new.new_rows) == set(target.types) - set(known)
    assert all(how.startswith(expected) for how in new.new_rows.values())
    (note,) = method.run_notes(model)
    assert f"started {expected}" in note
    assert not any(f"rows of {t}" in note for t in known if t not in target.types)


def test_prototypes_are_the_tokens_part_of_the_rows(make_method: Make, heterogeneous: list[Corpus]) -> None:
    *sources, target = heterogeneous
    random, made = (started(make_method, sources, target, new_rows=how)[1] for how in ("random", "prototypes"))
    size = made.query.out_features  # of a state
    fresh = [made.space.index[f"B-{label}"] for label in made.new_rows]
    kept = [i for i, tag in enumerate(made.space.tags) if tag[2:] not in made.new_rows]
    assert not (made.project.weight[fresh, :size] == random.project.weight[fresh, :size]).any()
    assert torch.equal(made.project.weight[fresh, size:], random.project.weight[fresh, size:])
    assert torch.equal(made.project.weight[kept], random.project.weight[kept])
    assert torch.equal(made.labels.weight, random.labels.weight)


def test_types_of_the_sources_alone_are_never_predicted(
    heterogeneous: list[Corpus], quick: dict[str, Any], tmp_path: Path
) -> None:
    *sources, target = heterogeneous
    run = transfer("laner", target, sources, out=tmp_path / "run", config=quick, quiet=True)
    tagger = run.tagger()
    assert tagger.types == tuple(sorted(target.types))
    head = head_of(tagger.model)
    assert set(head.types) > set(target.types)
    with torch.no_grad():  # as if the sources' types were likelier than all others
        for tag, i in head.space.index.items():
            if tag[2:] and tag[2:] not in target.types:
                head.project.bias[i] += 100.0
    theirs = [s for c in sources for s in c.test]
    assert {span.label for s in tagger.tag_sentences(theirs) for span in s.spans} <= set(target.types)


def test_names_of_one_type() -> None:
    assert full_name("PER") == full_name("Person")
    assert full_name("organization") == full_name("ORG")
    assert dict(LabelMapping.between(["Location", "dish"], ["LOC", "PER"])) == {"Location": "LOC"}
    assert LabelMapping.between(["Location", "dish"], ["LOC", "PER"], {"dish": "PER"})["dish"] == "PER"


def test_nearest_is_by_what_the_encoder_makes_of_the_name(make_method: Make, heterogeneous: list[Corpus]) -> None:
    model = make_method("laner", heterogeneous[:1], heterogeneous[1], QUICK).source_model()
    theirs = ["place", "Person_Name", "quantity"]
    assert nearest_types(model.encoder, ["person name", "PLACE"], theirs) == {
        "person name": "Person_Name",
        "PLACE": "place",
    }
    assert nearest_types(model.encoder, [], theirs) == {}


def test_joined_spaces_have_each_type_once(make_method: Make, heterogeneous: list[Corpus]) -> None:
    ours, theirs = heterogeneous[0].label_space("BIO"), heterogeneous[1].label_space("BIO")
    joint = joined_space(ours, theirs, {t: t for t in ours.types if t in theirs.types})
    assert set(joint.types) == {*ours.types, *theirs.types}


def test_what_cannot_be_is_refused(make_method: Make, heterogeneous: list[Corpus]) -> None:
    *sources, target = heterogeneous

    def check(settings: dict[str, Any]) -> None:
        make_method("laner", sources, target, merge(QUICK, settings)).check()

    with pytest.raises(ConfigError, match="finetune"):
        check({"head": {"kind": "crf"}})
    for name, value in (("label_size", 0), ("beam", 0), ("sampling", 1.5)):
        with pytest.raises(ConfigError, match=name):
            check({"options": {name: value}})
    with pytest.raises(SetupError, match=r"the target has no type 'persn' .did you mean 'person'"):
        check({"head": {"same": {"persn": "person"}}})
    with pytest.raises(SetupError, match="the sources have no type 'persn'"):
        check({"head": {"same": {"person": "persn"}}})


def test_a_start_with_other_settings_is_refused(
    heterogeneous: list[Corpus], quick: dict[str, Any], tmp_path: Path
) -> None:
    *sources, target = heterogeneous
    folder = pretrain("laner", sources, out=tmp_path / "start", config=quick, quiet=True)
    other = merge(quick, {"options": {"label_size": 7}})
    with pytest.raises(SetupError, match="label_size = 6"):
        adapt(folder, target, out=tmp_path / "run", config=other, quiet=True)
    plain = merge(quick, {"head": {"kind": "softmax"}, "options": {}})
    del plain["options"]
    headed = pretrain("finetune", sources[:1], out=tmp_path / "plain", config=plain, quiet=True)
    with pytest.raises(SetupError, match="label-aware"):
        transfer("laner", target, start=headed, out=tmp_path / "other", config=quick, quiet=True)


def test_presets() -> None:
    paper, released = (resolve("laner", {"preset": name}) for name in ("paper", "released"))
    assert (paper.train.lr, paper.train.batch_size, paper.train.epochs) == (5e-5, 16, 100)
    assert (paper.options["label_size"], paper.head.scheme) == (100, "BIO")
    assert paper.options["connect"]
    assert not released.options["connect"]


def test_new_rows_may_start_from_what_the_encoder_makes_of_their_names(
    make_method: Make, heterogeneous: list[Corpus]
) -> None:
    *sources, target = heterogeneous
    random, named = (started(make_method, sources, target, new_rows=how)[1] for how in ("random", "names"))
    old = started(make_method, sources, target)[0]
    fresh = [t for t in target.types if t not in old.space.types]
    assert len(fresh) > 1
    size = named.query.out_features  # of a state
    for label in fresh:
        begin, inside = (named.space.index[f"{letter}-{label}"] for letter in "BI")
        assert torch.equal(named.project.weight[begin, :size], named.project.weight[inside, :size])
        assert not torch.equal(named.project.weight[begin, :size], random.project.weight[begin, :size])
        assert torch.equal(named.project.weight[begin, size:], random.project.weight[begin, size:])


def test_a_checked_run_says_where_step_by_step_would_differ(
    make_corpus: Make, quick: dict[str, Any], tmp_path: Path
) -> None:
    config = merge(quick, {"options": {"check": True}})
    corpus = make_corpus("news", train=30, dev=6, test=9)
    counts = transfer("laner", corpus, out=tmp_path / "run", config=config, quiet=True).metrics["decoding"]
    assert (counts["sentences"], counts["differ"], counts["near_ties"]) == (9, 0, 0)
    assert counts["passes"] >= 1
    plain = transfer("laner", corpus, out=tmp_path / "plain", config=quick, quiet=True)
    assert "decoding" not in plain.metrics


def test_with_own_types_a_corpus_leaves_the_rows_of_other_types_alone(
    make_method: Make, heterogeneous: list[Corpus]
) -> None:
    *sources, target = heterogeneous
    stage = make_method("laner", sources, target, merge(QUICK, {"options": {"own_types": True}})).pretrain()
    head = head_of(stage.model, "shared")
    assert len({c.types for c in sources}) > 1
    for step in range(stage.steps_per_epoch):
        batches = stage.draw(step, 0, 1)
        stage.gradients(batches, lambda loss: loss.backward())
        (name,) = batches
        own = next(c.types for c in sources if c.name == name)
        moved = {head.space.tags[i] for i in (head.project.weight.grad.abs().sum(1) > 1e-5).nonzero()[:, 0]}
        assert {tag[2:] for tag in moved - {"O"}} == set(own)
        stage.model.zero_grad()
