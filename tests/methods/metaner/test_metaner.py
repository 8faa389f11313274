"""MetaNER on the real model: splits, heads, variants, dropout masks, resuming."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from looped import run_loop
from nershift.data.corpus import Corpus
from nershift.errors import ConfigError, Interrupted, SetupError
from nershift.methods.adversary import AdversarialStage
from nershift.methods.metaner.step import Iteration, MetaStage, Tasks, only_used_rows
from nershift.run import resolve
from nershift.training.seeding import seed_torch
from nershift.training.stage import TrainingStage

Make = Callable[..., Any]


def gradients(stage: TrainingStage, step: int = 0) -> dict[str, Tensor]:
    stage.model.train()
    stage.model.zero_grad()
    seed_torch(1, step)
    stage.gradients(stage.draw(step, 0, 1), Tensor.backward)
    return {n: p.grad.clone() for n, p in stage.model.named_parameters() if p.grad is not None}


def test_every_iteration_splits_all_domains_anew(make_method: Make, homogeneous: list[Corpus]) -> None:
    stage = make_method("metaner", homogeneous).pretrain()
    drawn = [list(stage.draw(step, 0, 1)) for step in range(40)]
    assert all(sorted(names) == sorted(c.name for c in homogeneous) for names in drawn)
    validating = Counter(names[-1] for names in drawn)
    assert len(validating) == 4
    assert min(validating.values()) >= 4
    assert list(stage.draw(7, 0, 1)) == drawn[7]  # whatever was drawn before


def test_one_label_space_means_one_head(make_method: Make, homogeneous: list[Corpus]) -> None:
    """Which learns by the validation task alone (eq. 21)."""
    stage = make_method("metaner", homogeneous).pretrain()
    assert [key for key, _ in stage.model.named_heads()] == ["shared"]
    settings = {"options": {"inner_lr": 0.0}, "encoder": {"dropout": 0.0}}
    still = make_method("metaner", homogeneous, settings=settings).pretrain()
    gradients(still)
    weight = still.model.head("shared").project.weight
    found = weight.grad
    *_, validating = still.draw(0, 0, 1).values()
    (expected,) = torch.autograd.grad(still.model(validating), weight)
    torch.testing.assert_close(found, expected)


def test_label_spaces_of_their_own_mean_a_head_each(make_method: Make, heterogeneous: list[Corpus]) -> None:
    """All of which learn in every iteration, from validation or from their own training loss."""
    stage = make_method("metaner", heterogeneous).pretrain()
    assert [key for key, _ in stage.model.named_heads()] == [c.name for c in heterogeneous]
    found = gradients(stage)
    for corpus in heterogeneous:
        assert stage.model.head(corpus.name).project.weight.grad.abs().sum() > 0
    assert set(found) == {n for n, p in stage.model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("same", [True, False])
def test_differences_see_the_same_dropout_masks(
    make_method: Make, homogeneous: list[Corpus], heterogeneous: list[Corpus], same: bool
) -> None:
    sources = homogeneous if same else heterogeneous
    found = {}
    for order in ("first", "second", "second-fd"):
        options = {"order": order, "inner_lr": 1e-3}
        settings = {"options": options, "encoder": {"dropout": 0.5, "words": {"word_dropout": 0.1}}}
        stage = make_method("metaner", sources, settings=settings).pretrain()
        stage.model.double()
        found[order] = gradients(stage)
    heads = [n for n in found["second"] if not n.startswith("encoder")]
    exact = torch.cat([(found["second"][n] - found["first"].get(n, 0)).flatten() for n in heads])
    fd = torch.cat([(found["second-fd"][n] - found["first"].get(n, 0)).flatten() for n in heads])
    assert exact.norm() > 1e-5 * torch.cat([found["first"][n].flatten() for n in heads if n in found["first"]]).norm()
    assert (fd - exact).norm() < 0.01 * exact.norm()


def test_a_smaller_word_table_changes_no_gradient(make_method: Make, homogeneous: list[Corpus]) -> None:
    stage = make_method("metaner", homogeneous).pretrain()
    table = stage.model.encoder.words
    full, trained = table.weight, table.trained
    small = gradients(stage)
    assert table.weight is full
    assert table.trained == trained
    stage.model.zero_grad()
    seed_torch(1, 0)
    batches = stage.draw(0, 0, 1)
    Iteration(Tasks(stage.model, batches, stage.domains, stage.discriminator), stage.options).run()
    for name, value in small.items():
        torch.testing.assert_close(stage.model.get_parameter(name).grad, value, rtol=1e-4, atol=1e-6)


def test_a_smaller_word_table_keeps_states_of_all_words(make_method: Make, homogeneous: list[Corpus]) -> None:
    stage = make_method("metaner", homogeneous).pretrain()
    model = stage.model.eval()
    table = model.encoder.words
    table.vocabulary.extend(["zzz"])  # one frozen word behind the trained ones
    table.register_buffer("reserve", torch.ones(1, table.size))
    batch = stage.draw(0, 0, 1)[homogeneous[0].name]
    batch.inputs["rows"][0] = table.vocabulary.find("zzz")
    before = model.states(batch)
    with only_used_rows(model.encoder, [batch]) as (small,):
        assert len(table.weight) < 200
        torch.testing.assert_close(model.states(small), before, rtol=0, atol=0)


OPTIONS: list[dict[str, Any]] = [
    {"adversary": False},
    {"validation_theta": "new"},
    {"update": "maml"},
    {"inner_steps": "summed"},
    {"adversary_weight": 0.1},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_each_switch_of_the_ablation_changes_the_gradients(
    make_method: Make, homogeneous: list[Corpus], options: dict[str, Any]
) -> None:
    full, other = (
        gradients(make_method("metaner", homogeneous, settings={"options": o | {"inner_lr": 0.05}}).pretrain())
        for o in ({}, options)
    )
    assert any(n not in other or not torch.allclose(full[n], other[n], rtol=1e-4) for n in full)
    assert ("extras.discriminator.pool.vector" in other) == options.get("adversary", True)


def test_without_meta_learning_it_is_plain_adversarial_training(make_method: Make, homogeneous: list[Corpus]) -> None:
    settings = {"options": {"meta": False}, "encoder": {"dropout": 0.0}}
    stage = make_method("metaner", homogeneous, settings=settings).pretrain()
    assert isinstance(stage, AdversarialStage)
    found = gradients(stage)
    stage.model.zero_grad()
    batches, discriminator = stage.draw(0, 0, 1), stage.model.extras["discriminator"]
    tagging = sum(stage.model(b) for b in batches.values())
    domain = sum(discriminator.loss(stage.model.states(b), b.mask, stage.domains[n]) for n, b in batches.items())
    encoder = "encoder.recurrent.weight_ih_l0"
    weight = stage.model.get_parameter(encoder)
    g, d = (torch.autograd.grad(x, weight, retain_graph=True)[0] for x in (tagging, domain))
    torch.testing.assert_close(found[encoder], g - 0.8 * d, rtol=1e-4, atol=1e-6)
    vector = discriminator.pool.vector
    (expected,) = torch.autograd.grad(domain, vector)
    torch.testing.assert_close(found["extras.discriminator.pool.vector"], expected, rtol=1e-4, atol=1e-6)


def test_characters_can_be_left_out(make_method: Make, homogeneous: list[Corpus]) -> None:
    stage = make_method("metaner", homogeneous, settings={"encoder": {"chars": {"use": False}}}).pretrain()
    assert not any("chars" in name for name in gradients(stage))


def test_accumulated_parts_add_up_to_their_mean(make_method: Make, homogeneous: list[Corpus]) -> None:
    settings = {"encoder": {"dropout": 0.0}, "pretrain": {"accumulate": 2}}
    stage = make_method("metaner", homogeneous, settings=settings).pretrain()
    plain = make_method("metaner", homogeneous, settings={"encoder": {"dropout": 0.0}}).pretrain()
    stage.gradients(stage.draw(0, 0, 1), Tensor.backward)
    stage.gradients(stage.draw(0, 0, 1), Tensor.backward)
    for name, value in gradients(plain).items():
        torch.testing.assert_close(stage.model.get_parameter(name).grad, value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("order", ["first", "second-fd"])
def test_a_resumed_run_ends_with_the_same_weights(
    make_method: Make, heterogeneous: list[Corpus], tmp_path: Path, order: str
) -> None:
    settings = {"pretrain": {"max_steps": 7}, "options": {"order": order}}

    def stage() -> MetaStage:
        return make_method("metaner", heterogeneous, settings=settings).pretrain()

    whole = run_loop(stage(), tmp_path / "whole")
    for stop in (2, 5):
        with pytest.raises(Interrupted):
            run_loop(stage(), tmp_path / "cut", stop_after=stop)
    resumed = run_loop(stage(), tmp_path / "cut")
    assert all(torch.equal(resumed[n], value) for n, value in whole.items())


def test_adapting_keeps_the_encoder_and_makes_a_head(make_method: Make, heterogeneous: list[Corpus]) -> None:
    *sources, target = heterogeneous
    method = make_method("metaner", sources, target)
    start = method.pretrain().model
    stage = method.train(start)
    assert stage.model.encoder is start.encoder
    assert stage.model.head("target").space.types == target.types
    assert "discriminator" not in stage.model.extras


@pytest.mark.parametrize("new", [True, False])
def test_a_fitting_head_is_kept_unless_a_new_one_is_asked_for(
    make_method: Make, homogeneous: list[Corpus], new: bool
) -> None:
    *sources, target = homogeneous
    method = make_method("metaner", sources, target, settings={"options": {"new_head": new}})
    start = method.pretrain().model
    shared = start.head("shared")
    assert (method.train(start).model.head("target") is shared) == (not new)


def test_one_source_is_refused(make_method: Make, homogeneous: list[Corpus]) -> None:
    for name in ("metaner", "metaner-zero"):
        with pytest.raises(SetupError, match="1 source"):
            make_method(name, homogeneous[:1], homogeneous[-1]).check()


def test_differences_in_half_precision_are_refused(make_method: Make, homogeneous: list[Corpus]) -> None:
    settings = {"options": {"order": "second-fd"}, "pretrain": {"precision": "bf16"}}
    with pytest.raises(ConfigError, match="bf16"):
        make_method("metaner", homogeneous, settings=settings).check()


def test_options_under_their_earlier_names_are_accepted() -> None:
    old = {"inner_rate": 0.01, "weight": 0.2, "inner": "summed", "new_decoder": True}
    options = resolve("metaner", {"options": old}).options
    assert [options[n] for n in ("inner_lr", "adversary_weight", "inner_steps", "new_head")] == list(old.values())
