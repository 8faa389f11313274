from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch

from nershift.config import Config, TrainConfig, build
from nershift.data.corpus import Corpus
from nershift.encoders.base import make_encoder
from nershift.heads.base import make_head
from nershift.model import TaggingModel
from nershift.training.budget import Budget
from nershift.training.optim import make_optimizer, rate_factor, set_rate

MakeCorpus = Callable[..., Corpus]


def _factors(steps: int = 10, per_epoch: int = 5, **settings: Any) -> list[float]:
    config = TrainConfig(epochs=-(-steps // per_epoch), updates=steps, **settings)
    return [rate_factor(config, step, Budget.of(config, per_epoch)) for step in range(steps)]


def test_constant() -> None:
    assert _factors(schedule="constant") == [1.0] * 10


def test_linear_goes_down_to_one_last_step() -> None:
    assert _factors(schedule="linear") == pytest.approx([(10 - i) / 10 for i in range(10)])


def test_inverse_falls_at_each_epoch() -> None:
    factors = _factors(steps=15, schedule="inverse", lr_decay=0.5)
    assert factors == pytest.approx([1.0] * 5 + [1 / 1.5] * 5 + [1 / 2] * 5)


def test_inverse_falls_every_hundred_updates_where_they_give_the_length() -> None:
    config = TrainConfig(updates=300, schedule="inverse", lr_decay=0.5)
    factors = [rate_factor(config, step, Budget.of(config, 2)) for step in (0, 99, 100, 299)]
    assert factors == pytest.approx([1, 1, 1 / 1.5, 1 / 2])


@pytest.mark.parametrize("schedule", ["constant", "linear", "inverse"])
def test_warm_up_rises_and_meets_the_schedule(schedule: str) -> None:
    factors = _factors(steps=100, per_epoch=100, schedule=schedule, warmup=0.2)
    assert factors[:20] == pytest.approx([(i + 1) / 21 for i in range(20)])
    assert factors[20] == 1.0
    assert all(a >= b for a, b in pairwise(factors[20:]))
    assert all(f > 0 for f in factors)


@pytest.fixture
def model(make_corpus: MakeCorpus, tiny: dict[str, Any]) -> TaggingModel:
    corpus = make_corpus()
    encoder = make_encoder(build(Config, tiny).encoder, corpus.train)
    return TaggingModel(encoder, {"target": make_head("crf", corpus.label_space(), encoder.size)})


def test_three_groups_with_rates_of_their_own(model: TaggingModel) -> None:
    config = TrainConfig(lr=1.0, encoder_lr=0.1, words_lr=0.01, weight_decay=0.5)
    optimizer = make_optimizer(config, model)
    rates = {id(p): (g["lr"], g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]}
    assert len(rates) == len(list(model.parameters()))
    for name, p in model.named_parameters():
        expected = (0.01, 0.0) if "words." in name else (0.1, 0.5) if name.startswith("encoder.") else (1.0, 0.5)
        assert rates[id(p)] == expected, name
    set_rate(optimizer, 0.5)
    set_rate(optimizer, 0.5)  # of the base rate, not of the last one
    assert [g["lr"] for g in optimizer.param_groups] == [0.005, 0.05, 0.5]


def test_rates_fall_back_from_words_to_encoder_to_the_rest(model: TaggingModel) -> None:
    assert [g["lr"] for g in make_optimizer(TrainConfig(lr=2.0), model).param_groups] == [2.0, 2.0, 2.0]
    half = make_optimizer(TrainConfig(lr=2.0, encoder_lr=1.0), model)
    assert [g["lr"] for g in half.param_groups] == [1.0, 1.0, 2.0]


def test_frozen_parameters_have_no_group(model: TaggingModel) -> None:
    model.encoder.requires_grad_(False)
    (only,) = make_optimizer(TrainConfig(), model).param_groups
    assert {id(p) for p in only["params"]} == {id(p) for p in model.head("target").parameters()}


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "rmsprop"])
def test_each_optimizer_lowers_the_loss(model: TaggingModel, make_corpus: MakeCorpus, name: str) -> None:
    model.eval()  # no dropout
    rows = make_corpus().train[:8]
    batch = model.batch(
        "target",
        rows,
        [model.encoder.prepare(s.tokens) for s in rows],
        [model.head("target").targets(s) for s in rows],
    )
    optimizer = make_optimizer(TrainConfig(optimizer=name, lr=0.01, momentum=0.9), model)  # type: ignore[arg-type]
    assert type(optimizer).__name__.lower() == name
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = model(batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert torch.tensor(losses).isfinite().all()
