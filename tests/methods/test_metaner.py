"""MetaNER on the real model: splits, decoders, variants, dropout masks, resuming."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from looped import run_loop
from torch import Tensor

from nershift.data.corpus import Corpus
from nershift.errors import ConfigError, SetupError
from nershift.methods.dann import AdversarialPhase
from nershift.methods.metaner import DomainTasks, MetaPhase
from nershift.nn.inner.gradients import meta_gradients
from nershift.nn.inner.narrow import narrowed
from nershift.train.loop import Interrupted
from nershift.train.phase import Phase
from nershift.train.seeding import seed_torch

Make = Callable[..., Any]


def gradients(phase: Phase, step: int = 0) -> dict[str, Tensor]:
    phase.model.train()
    phase.model.zero_grad()
    seed_torch(1, step)
    phase.gradients(phase.draw(step, 0, 1), Tensor.backward)
    return {n: p.grad.clone() for n, p in phase.model.named_parameters() if p.grad is not None}


def test_every_iteration_splits_all_domains_anew(make_method: Make, homogeneous: list[Corpus]) -> None:
    phase = make_method("metaner", homogeneous).pretrain()
    drawn = [list(phase.draw(step, 0, 1)) for step in range(40)]
    assert all(sorted(names) == sorted(c.name for c in homogeneous) for names in drawn)
    validating = Counter(names[-1] for names in drawn)
    assert len(validating) == 4
    assert min(validating.values()) >= 4
    assert list(phase.draw(7, 0, 1)) == drawn[7]  # whatever was drawn before


def test_one_label_space_means_one_decoder(make_method: Make, homogeneous: list[Corpus]) -> None:
    """Which learns by the validation task alone (eq. 21)."""
    phase = make_method("metaner", homogeneous).pretrain()
    assert [key for key, _ in phase.model.named_decoders()] == ["shared"]
    assert not phase.settings.teach_decoders
    settings = {"options": {"inner_rate": 0.0}, "encoder": {"dropout": 0.0}}
    still = make_method("metaner", homogeneous, settings=settings).pretrain()
    gradients(still)
    weight = still.model.decoder("shared").project.weight
    found = weight.grad
    *_, validating = still.draw(0, 0, 1).values()
    (expected,) = torch.autograd.grad(still.model.loss(validating), weight)
    torch.testing.assert_close(found, expected)


def test_label_spaces_of_their_own_mean_a_decoder_each(
    make_method: Make, heterogeneous: list[Corpus]
) -> None:
    """All of which learn in every iteration, from validation or from their own training loss."""
    phase = make_method("metaner", heterogeneous).pretrain()
    assert [key for key, _ in phase.model.named_decoders()] == [c.name for c in heterogeneous]
    found = gradients(phase)
    for corpus in heterogeneous:
        assert phase.model.decoder(corpus.name).project.weight.grad.abs().sum() > 0
    assert set(found) == {n for n, p in phase.model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("same", [True, False])
def test_differences_see_the_same_dropout_masks(
    make_method: Make, homogeneous: list[Corpus], heterogeneous: list[Corpus], same: bool
) -> None:
    sources = homogeneous if same else heterogeneous
    found = {}
    for order in ("first", "second", "second-fd"):
        options = {"order": order, "inner_rate": 1e-3}
        settings = {"options": options, "encoder": {"dropout": 0.5, "words": {"drop": 0.1}}}
        phase = make_method("metaner", sources, settings=settings).pretrain()
        phase.model.double()
        found[order] = gradients(phase)
    heads = [n for n in found["second"] if not n.startswith("encoder")]
    exact = torch.cat([(found["second"][n] - found["first"].get(n, 0)).flatten() for n in heads])
    fd = torch.cat([(found["second-fd"][n] - found["first"].get(n, 0)).flatten() for n in heads])
    assert (
        exact.norm()
        > 1e-5 * torch.cat([found["first"][n].flatten() for n in heads if n in found["first"]]).norm()
    )
    assert (fd - exact).norm() < 0.01 * exact.norm()


def test_a_narrow_word_table_changes_no_gradient(make_method: Make, homogeneous: list[Corpus]) -> None:
    phase = make_method("metaner", homogeneous).pretrain()
    table = phase.model.encoder.words
    full, trained = table.weight, table.trained
    narrow = gradients(phase)
    assert table.weight is full
    assert table.trained == trained
    phase.model.zero_grad()
    seed_torch(1, 0)
    batches = phase.draw(0, 0, 1)
    encoder = dict(phase.model.encoder.named_parameters())
    extras = list(phase.model.extras.parameters())
    meta_gradients(encoder, extras, phase.settings, DomainTasks(phase.model, batches, phase.domains))
    for name, value in narrow.items():
        torch.testing.assert_close(phase.model.get_parameter(name).grad, value, rtol=1e-4, atol=1e-6)


def test_narrowing_keeps_states_of_trained_and_frozen_words(
    make_method: Make, homogeneous: list[Corpus]
) -> None:
    phase = make_method("metaner", homogeneous).pretrain()
    model = phase.model.eval()
    table = model.encoder.words
    table.vocabulary.extend(["zzz"])  # one frozen word behind the trained ones
    table.register_buffer("reserve", torch.ones(1, table.size))
    batch = phase.draw(0, 0, 1)[homogeneous[0].name]
    batch.inputs["rows"][0] = table.vocabulary.find("zzz")
    before = model.states(batch)
    with narrowed(model.encoder, [batch]) as (small,):
        assert len(table.weight) < 200
        torch.testing.assert_close(model.states(small), before, rtol=0, atol=0)


OPTIONS: list[dict[str, Any]] = [
    {"adversary": False},
    {"validation_theta": "new"},
    {"update": "maml"},
    {"inner": "summed"},
    {"weight": 0.1},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_each_switch_of_the_ablation_changes_the_gradients(
    make_method: Make, homogeneous: list[Corpus], options: dict[str, Any]
) -> None:
    full, other = (
        gradients(
            make_method("metaner", homogeneous, settings={"options": o | {"inner_rate": 0.05}}).pretrain()
        )
        for o in ({}, options)
    )
    assert any(n not in other or not torch.allclose(full[n], other[n], rtol=1e-4) for n in full)
    assert ("extras.discriminator.pool.vector" in other) == options.get("adversary", True)


def test_without_meta_learning_it_is_plain_adversarial_training(
    make_method: Make, homogeneous: list[Corpus]
) -> None:
    settings = {"options": {"meta": False}, "encoder": {"dropout": 0.0}}
    phase = make_method("metaner", homogeneous, settings=settings).pretrain()
    assert isinstance(phase, AdversarialPhase)
    found = gradients(phase)
    phase.model.zero_grad()
    batches, discriminator = phase.draw(0, 0, 1), phase.model.extras["discriminator"]
    tagging = sum(phase.model.loss(b) for b in batches.values())
    domain = sum(
        discriminator.loss(phase.model.states(b), b.mask, phase.domains[n]) for n, b in batches.items()
    )
    encoder = "encoder.recurrent.weight_ih_l0"
    weight = phase.model.get_parameter(encoder)
    g, d = (torch.autograd.grad(x, weight, retain_graph=True)[0] for x in (tagging, domain))
    torch.testing.assert_close(found[encoder], g - 0.8 * d, rtol=1e-4, atol=1e-6)
    vector = discriminator.pool.vector
    (expected,) = torch.autograd.grad(domain, vector)
    torch.testing.assert_close(found["extras.discriminator.pool.vector"], expected, rtol=1e-4, atol=1e-6)


def test_characters_can_be_left_out(make_method: Make, homogeneous: list[Corpus]) -> None:
    phase = make_method("metaner", homogeneous, settings={"encoder": {"chars": {"use": False}}}).pretrain()
    assert not any("chars" in name for name in gradients(phase))


def test_accumulated_parts_add_up_to_their_mean(make_method: Make, homogeneous: list[Corpus]) -> None:
    settings = {"encoder": {"dropout": 0.0}, "pretrain": {"accumulate": 2}}
    phase = make_method("metaner", homogeneous, settings=settings).pretrain()
    plain = make_method("metaner", homogeneous, settings={"encoder": {"dropout": 0.0}}).pretrain()
    phase.gradients(phase.draw(0, 0, 1), Tensor.backward)
    phase.gradients(phase.draw(0, 0, 1), Tensor.backward)
    for name, value in gradients(plain).items():
        torch.testing.assert_close(phase.model.get_parameter(name).grad, value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("order", ["first", "second-fd"])
def test_a_resumed_run_ends_with_the_same_weights(
    make_method: Make, heterogeneous: list[Corpus], tmp_path: Path, order: str
) -> None:
    settings = {"pretrain": {"max_steps": 7}, "options": {"order": order}}

    def phase() -> MetaPhase:
        return make_method("metaner", heterogeneous, settings=settings).pretrain()

    whole = run_loop(phase(), tmp_path / "whole")
    for stop in (2, 5):
        with pytest.raises(Interrupted):
            run_loop(phase(), tmp_path / "cut", stop_after=stop)
    resumed = run_loop(phase(), tmp_path / "cut")
    assert all(torch.equal(resumed[n], value) for n, value in whole.items())


def test_adapting_keeps_the_encoder_and_makes_a_decoder(
    make_method: Make, heterogeneous: list[Corpus]
) -> None:
    *sources, target = heterogeneous
    method = make_method("metaner", sources, target)
    start = method.pretrain().model
    phase = method.train(start)
    assert phase.model.encoder is start.encoder
    assert phase.model.decoder("target").space.types == target.types
    assert "discriminator" not in phase.model.extras


@pytest.mark.parametrize("new", [True, False])
def test_a_fitting_decoder_is_kept_unless_a_new_one_is_asked_for(
    make_method: Make, homogeneous: list[Corpus], new: bool
) -> None:
    *sources, target = homogeneous
    method = make_method("metaner", sources, target, settings={"options": {"new_decoder": new}})
    start = method.pretrain().model
    shared = start.decoder("shared")
    assert (method.train(start).model.decoder("target") is shared) == (not new)


def test_one_source_is_refused(make_method: Make, homogeneous: list[Corpus]) -> None:
    for name in ("metaner", "metaner-zero"):
        with pytest.raises(SetupError, match="1 source"):
            make_method(name, homogeneous[:1], homogeneous[-1]).check()


def test_differences_in_half_precision_are_refused(make_method: Make, homogeneous: list[Corpus]) -> None:
    settings = {"options": {"order": "second-fd"}, "pretrain": {"precision": "bf16"}}
    with pytest.raises(ConfigError, match="bf16"):
        make_method("metaner", homogeneous, settings=settings).check()
