"""Every method of MetaNER's tables: end to end, what it trains on, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.errors import NershiftError, SetupError
from nershift.methods import METHODS
from nershift.run import adapt, pretrain, resolve, transfer
from nershift.run_folder import Run
from nershift.training.raw_sampler import RawBatchSampler

Make = Callable[..., Any]
SHARED = ("person", "place")  # types of the homogeneous corpora

TABLE = [
    "target_only",
    "source_only",
    "aggregate",
    "finetune",
    "multitask",
    "dann",
    "protonet",
    "metaner",
    "metaner-zero",
]
ZERO = {"source_only", "metaner-zero"}
QUICK = {"train": {"max_steps": 4}, "pretrain": {"max_steps": 4}}


def check_run(run: Run, target: Corpus) -> None:
    gold, predicted = run.predictions()
    assert [s.tokens for s in gold] == [s.tokens for s in target.test]
    assert [s.tokens for s in predicted] == [s.tokens for s in target.test]
    assert set(target.types) <= set(run.tagger().types)
    assert isinstance(run.tagger()("Anna went to Oslo."), list)


@pytest.mark.parametrize("name", TABLE)
def test_all_methods_run_with_one_label_space(
    name: str, homogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    *sources, target = homogeneous
    run = transfer(name, target, sources, out=tmp_path / "run", config=merge(tiny, QUICK), quiet=True)
    check_run(run, target)
    stages = run.metrics["phases"]
    assert ("train" in stages) == (name not in ZERO)


@pytest.mark.parametrize("name", [n for n in TABLE if n not in ZERO])
def test_methods_that_see_the_target_run_with_label_spaces_of_their_own(
    name: str, heterogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    *sources, target = heterogeneous
    config = merge(tiny, QUICK)
    check_run(transfer(name, target, sources, out=tmp_path / "run", config=config, shots=5, quiet=True), target)


@pytest.mark.parametrize("name", ["finetune", "protonet", "metaner", "source_only", "metaner-zero"])
def test_pretraining_once_serves_a_target(
    name: str, homogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    """With the very result of doing both in one go."""
    *sources, target = homogeneous
    config = merge(tiny, QUICK)
    folder = pretrain(name, sources, out=tmp_path / "start", config=config, quiet=True)
    run = adapt(folder, target, out=tmp_path / "run", config=config, quiet=True)
    check_run(run, target)
    whole = transfer(name, target, sources, out=tmp_path / "whole", config=config, quiet=True)
    assert run.predictions() == whole.predictions()
    assert run.metrics["selection"] == whole.metrics["selection"]


@pytest.mark.parametrize("name", ["aggregate", "multitask", "dann"])
def test_methods_that_need_the_target_from_the_start_cannot_pretrain(
    name: str, homogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(SetupError, match="together"):
        pretrain(name, homogeneous, out=tmp_path / "start", config=tiny, quiet=True)


def test_all_methods_of_the_table_train_the_same_model() -> None:
    configs = {name: resolve(name, {"preset": "paper"}) for name in TABLE}
    for name, config in configs.items():
        assert config.encoder == configs["metaner"].encoder, name
        assert config.train == configs["metaner"].train, name
        assert config.pretrain == configs["metaner"].pretrain, name
    model = configs["metaner"]
    assert (model.encoder.words.size, model.encoder.recurrent.size, model.encoder.dropout) == (300, 128, 0.5)
    assert (model.pretrain.lr, model.options["inner_lr"], model.options["adversary_weight"]) == (1e-3, 1e-4, 0.8)


def test_methods_say_where_they_come_from() -> None:
    for name in TABLE:
        assert METHODS[name].paper.startswith("MetaNER §")
        assert "\n" not in METHODS[name].summary


@pytest.mark.parametrize("name", sorted(ZERO))
def test_zero_shot_refuses_label_spaces_that_do_not_fit(
    name: str, make_method: Make, homogeneous: list[Corpus], heterogeneous: list[Corpus]
) -> None:
    with pytest.raises(SetupError, match="different entity types"):
        make_method(name, heterogeneous[:-1], heterogeneous[-1]).check()
    with pytest.raises(SetupError, match="condition") as caught:
        make_method(name, homogeneous[:-1], heterogeneous[-1]).check()
    assert "person, place" in str(caught.value)
    make_method(name, homogeneous[:-1], homogeneous[-1].mapped({"place": "O"})).check()  # fewer types do fit


@pytest.mark.parametrize("name", sorted(ZERO))
def test_zero_shot_from_a_folder_refuses_them_too(
    name: str, homogeneous: list[Corpus], heterogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    config = merge(tiny, QUICK)
    folder = pretrain(name, homogeneous[:-1], out=tmp_path / "start", config=config, quiet=True)
    with pytest.raises(SetupError, match="condition"):
        adapt(folder, heterogeneous[-1], out=tmp_path / "run", config=config, quiet=True)


def test_methods_with_sources_refuse_to_go_without(make_method: Make, homogeneous: list[Corpus]) -> None:
    for name in set(TABLE) - {"target_only"}:
        with pytest.raises(SetupError, match="0 source"):
            make_method(name, [], homogeneous[0]).check()


def test_aggregate_pools_sentences_and_types(make_method: Make, heterogeneous: list[Corpus]) -> None:
    *sources, target = heterogeneous
    stage = make_method("aggregate", sources, target).train(None)
    (sampler,) = stage.samplers.values()
    assert len(sampler.sentences) == sum(len(c.train) for c in heterogeneous)
    assert set(stage.model.head("target").space.types) == {t for c in heterogeneous for t in c.types}


def test_multitask_adds_up_the_losses_of_all_domains(make_method: Make, homogeneous: list[Corpus]) -> None:
    *sources, target = homogeneous
    method = make_method("multitask", sources, target, settings={"encoder": {"dropout": 0.0}})
    stage = method.train(None)
    assert len(stage.model.named_heads()) == 4  # also where one would do
    batches = stage.draw(0, 0, 1)
    assert len(batches) == 4
    expected = sum(stage.model(batch) for batch in batches.values())
    torch.testing.assert_close(stage.loss(batches), expected)
    assert [key for key, _ in method.finish(stage.model).named_heads()] == ["target"]


def test_dann_reads_unlabelled_text_of_the_target(make_method: Make, homogeneous: list[Corpus]) -> None:
    *sources, target = homogeneous
    raw = {"target": [Sentence.of(["unheardof", "words"])]}
    stage = make_method("dann", sources, target, raw=raw).pretrain()
    assert "unheardof" in stage.model.encoder.words.vocabulary.index
    sampler = stage.samplers["target"]
    assert len(sampler.sentences) == len(target.train) + 1
    assert not any(s.spans for s in sampler.sentences)
    batches = stage.draw(0, 0, 1)
    assert batches["target"].targets is None
    assert sorted(stage.domains.values()) == [0, 1, 2, 3]
    stage.gradients(batches, lambda loss: loss.backward())
    discriminator = stage.model.extras["discriminator"]
    assert discriminator.mlp[-1].out_features == 4
    assert all(p.grad is not None for p in stage.model.parameters() if p.requires_grad)


def test_dann_leaves_raw_text_on_disk_there(make_method: Make, homogeneous: list[Corpus], tmp_path: Path) -> None:
    *sources, target = homogeneous
    path = tmp_path / "text.raw.txt"
    path.write_text("".join(f"unheardof words number {'x' * (i % 5)}y\n" for i in range(400)), encoding="utf-8")
    settings = {"options": {"vocabulary": 3}}
    stage = make_method("dann", sources, target, settings, raw={"target": RawText(path)}).pretrain()
    sampler = stage.samplers["target"]
    assert isinstance(sampler, RawBatchSampler)
    assert len(sampler.text) == 400 + len(target.train)
    drawn = [s for k in range(sampler.per_epoch) for s in sampler.batch(k).sentences]
    assert len(drawn) == len(sampler.text)
    assert not any(s.spans for s in drawn)
    assert {t for s in drawn for t in s.tokens} >= {"unheardof", target.train[0].tokens[0]}
    named = stage.model.encoder.words.vocabulary.index
    assert sum(word in named for word in ("unheardof", "words", "number", "y", "xy", "xxy")) <= 3
    stage.gradients(stage.draw(0, 0, 1), lambda loss: loss.backward())
    assert stage.model.extras["discriminator"].mlp[-1].weight.grad is not None


def test_wpz_settles_its_prototypes_on_all_target_sentences(make_method: Make, homogeneous: list[Corpus]) -> None:
    *sources, target = homogeneous
    method = make_method("protonet", sources, target)
    start = method.pretrain().model
    learned = start.head("shared").outside.detach().clone()
    stage = method.train(start)
    model = method.finish(stage.model)
    head = model.head("target")
    torch.testing.assert_close(head.outside.detach(), learned)
    tag = head.space.index["B-person"]
    model.eval()
    rows = []
    for sentence in target.train:
        batch = model.batch("target", [sentence], [model.encoder.prepare(sentence.tokens)])
        with torch.no_grad():
            states = model.states(batch)[0]
        rows += [states[i] for i, t in enumerate(model.head("target").targets(sentence)) if t == tag]
    torch.testing.assert_close(head.project.weight[tag] / 2, torch.stack(rows).mean(0), rtol=1e-4, atol=1e-5)


def test_methods_train_on_long_sentences_in_parts(make_method: Make, homogeneous: list[Corpus]) -> None:
    *sources, target = homogeneous
    longest = max(len(s) for s in target.train) - 1
    samplers = {
        n: make_method("target_only", sources, target, {"train": {"max_tokens": n}}).train(None).samplers["target"]
        for n in (0, longest)
    }
    assert [len(s) for s in samplers[0].sentences] == [len(s) for s in target.train]
    assert max(len(s) for s in samplers[longest].sentences) <= longest < max(len(s) for s in target.train)


def test_rows_of_like_types_start_as_the_sources_left_them(heterogeneous: list[Corpus], make_method: Make) -> None:
    news, *others, target = heterogeneous
    sources = [news.mapped({"person": "PER"}), *others]
    made = make_method("finetune", sources, target, {"head": {"start": "carried", "new_rows": "random"}})
    made.check()
    start = made.source_model()
    old = start.head(sources[0].name)
    model = made.prepare_target(start)
    new = model.head("target")
    assert {"person", "place", "organisation"} <= set(target.types)
    for ours, theirs in (("person", "PER"), ("place", "place"), ("organisation", "organisation")):
        for letter in "BIES":
            a, b = new.space.index[f"{letter}-{ours}"], old.space.index[f"{letter}-{theirs}"]
            assert torch.equal(new.project.weight[a], old.project.weight[b])
    fresh = {"head": {"from_source": False, "new_rows": "random"}}
    plain = make_method("finetune", sources, target, fresh).prepare_target(made.source_model()).head("target")
    drug = new.space.index["B-drug"]
    assert torch.equal(new.project.weight[drug], plain.project.weight[drug])
    assert not torch.equal(new.project.weight[0], plain.project.weight[0])


@pytest.mark.parametrize("kind", ["crf", "softmax", "span"])
def test_rows_of_types_that_the_source_has_are_kept_unless_switched_off(
    heterogeneous: list[Corpus], make_method: Make, kind: str
) -> None:
    source, target = heterogeneous[0], heterogeneous[-1]
    notes = {}
    for keep in (True, False):
        method = make_method(
            "finetune", [source], target, {"head": {"kind": kind, "from_source": keep, "new_rows": "prototypes"}}
        )
        start = method.pretrain().model
        old = start.named_heads()[0][1]
        model = method.prepare_target(start)
        notes[keep] = method.run_notes(model)
        row = slice(0, 1) if kind == "span" else slice(1, 2)  # of the first type, organisation or condition
        assert bool(model.head("target").kept_rows) is keep
        shared = sorted(set(source.types) & set(target.types))
        assert sorted(model.head("target").kept_rows) == (shared if keep else [])
        assert old.project.weight[row].shape == model.head("target").project.weight[row].shape
    (note,) = notes[True]
    assert "kept the source's rows for organisation, person, place; rows of condition, dose, drug" in note
    assert note.endswith("started from prototypes of the labelled sentences.")
    assert notes[False] == []


def test_types_may_be_said_to_mean_the_same(heterogeneous: list[Corpus], make_method: Make) -> None:
    source, target = heterogeneous[0], heterogeneous[-1]
    method = make_method("finetune", [source], target, {"head": {"same": {"drug": "person"}}})
    start = method.pretrain().model
    old = start.named_heads()[0][1]
    new = method.prepare_target(start).head("target")
    assert new.kept_rows["drug"] == "person"
    ours, theirs = new.space.index["B-drug"], old.space.index["B-person"]
    assert torch.equal(new.project.weight[ours], old.project.weight[theirs])


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"start": "new", "same": {"drug": "place"}}, "the target's head starts with new rows"),
        ({"start": "carried", "same": {"drug": "placce"}}, "the sources have no type 'placce'.*'place'"),
        ({"start": "carried", "same": {"drugg": "place"}}, "the target has no type 'drugg'.*'drug'"),
    ],
)
def test_maps_of_types_that_cannot_be_are_refused(
    head: dict[str, Any], message: str, heterogeneous: list[Corpus], make_method: Make
) -> None:
    *sources, target = heterogeneous
    with pytest.raises(NershiftError, match=message):
        make_method("finetune", sources, target, {"head": head}).check()


@pytest.mark.parametrize("name", ["aggregate", "bilm", "crosslm", "dann", "source_only"])
def test_without_target_labels_its_dev_split_has_no_say(
    name: str, homogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    """Neither in what is kept nor in how sure the tagger says it is."""
    source, *_, target = homogeneous
    config = merge(tiny, QUICK)
    if name in ("bilm", "crosslm"):
        config = merge(config, {"encoder": {"recurrent": {"cell": "lstm", "layers": 1}}})
    runs = []
    for part, dev in (("whole", target.dev), ("other", target.dev[:1])):
        runs.append(
            transfer(
                name,
                target.with_splits(dev=dev),
                [source],
                out=tmp_path / part,
                raw={"target": [s.with_spans(()) for s in target.train]} if name != "aggregate" else None,
                shots=0,
                config=config,
                quiet=True,
            )
        )
    whole, other = runs
    assert whole.metrics["selection"] == "best dev F1 of the sources"
    assert set(whole.metrics["calibration"]) == {"dev", "test"}  # measured, not fitted
    weights = [(run.folder / "model.safetensors").read_bytes() for run in runs]
    assert weights[0] == weights[1]
    assert whole.predictions() == other.predictions()


@pytest.mark.parametrize("name", ["target_only", "finetune", "multitask", "crosslm"])
def test_a_corpus_without_entities_is_refused(
    name: str, homogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    source, *_, target = homogeneous
    config = tiny
    if name == "crosslm":
        config = merge(config, {"encoder": {"recurrent": {"cell": "lstm", "layers": 1}}})
    none = dict.fromkeys(SHARED, "O")
    settings: dict[str, Any] = {"out": tmp_path / "run", "config": config, "quiet": True}
    with pytest.raises(SetupError, match="target 'builtin-clinic' has no entity types"):
        transfer(name, target.mapped(none), [source], **settings)
    assert not (tmp_path / "run").exists()
    if name != "target_only":
        with pytest.raises(SetupError, match="source 'builtin-news' has no entity types"):
            transfer(name, target, [source.mapped(none)], **settings)


def test_sources_that_a_method_does_not_use_are_not_said_to_be_used(
    homogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    source, *_, target = homogeneous
    config = merge(tiny, QUICK)
    lstm = merge(config, {"encoder": {"recurrent": {"cell": "lstm", "layers": 1}}})
    unused = {
        "target_only": config,
        "crosslm": merge(lstm, {"options": {"variant": "co-lm"}}),
        "bilm": merge(lstm, {"options": {"texts": "target"}}),
    }
    for name, settings in unused.items():
        run = transfer(name, target, [source], out=tmp_path / name, config=settings, quiet=True)
        assert run.metrics["sources"] == []
        assert run.metrics["remarks"] == [
            f"Method '{name}' learned from the target alone: it did not use the sources (builtin-news)."
        ]
    run = transfer("finetune", target, [source], out=tmp_path / "used", config=config, quiet=True)
    assert run.metrics["sources"] == ["builtin-news"]
    assert not any("did not use" in remark for remark in run.metrics["remarks"])


@pytest.mark.parametrize("name", [n for n in TABLE if n not in {*ZERO, "aggregate", "dann"}])
def test_methods_that_need_target_labels_say_how_to_get_some(
    name: str, homogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    *sources, target = homogeneous
    settings: dict[str, Any] = {"out": tmp_path / "run", "config": tiny, "quiet": True}
    for corpus, shots in ((target, 0), (target.with_splits(train=()), None)):
        with pytest.raises(SetupError, match="no sentences to train on") as caught:
            transfer(name, corpus, sources, shots=shots, **settings)
        assert "--shots" in caught.value.fix
        assert "--hold-out" in caught.value.fix
    assert not (tmp_path / "run").exists()  # before the sources were trained on
