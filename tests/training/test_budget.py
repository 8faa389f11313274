"""Lengths in updates: they do not shrink with the labels, and evaluations stay cheap."""

from __future__ import annotations

from itertools import pairwise

import pytest

from nershift.config import TrainConfig
from nershift.training.budget import Budget, batch_size


@pytest.mark.parametrize("sentences", [1, 10, 50, 200, 1000, 14_000])
def test_the_default_length_never_shrinks_below_the_least(sentences: int) -> None:
    size = batch_size(sentences)
    assert Budget.of(TrainConfig(batch_size=size), -(-sentences // size)).total >= 1000


def test_more_labels_never_mean_fewer_updates_or_smaller_batches() -> None:
    sizes = [batch_size(n) for n in range(1, 20_000, 7)]
    assert all(a <= b for a, b in pairwise(sizes))
    totals = [Budget.of(TrainConfig(), per_epoch).total for per_epoch in range(1, 500)]
    assert all(a <= b for a, b in pairwise(totals))


def test_updates_say_exactly_how_many() -> None:
    assert Budget.of(TrainConfig(updates=37), steps_per_epoch=2).total == 37


def test_epochs_keep_their_unit_for_evaluations_and_patience() -> None:
    config = TrainConfig(epochs=30, patience=5)
    budget = Budget.of(config, steps_per_epoch=2, scored=1000, per_update=4)
    assert (budget.total, budget.every, budget.by_epochs) == (60, 2, True)
    assert [budget.exhausted(config, stale) for stale in (4, 5)] == [False, True]


def test_patience_in_updates() -> None:
    config = TrainConfig(updates=1000, patience=100)
    budget = Budget.of(config, steps_per_epoch=2)
    assert budget.every == 50
    assert [budget.exhausted(config, stale) for stale in (1, 2)] == [False, True]


@pytest.mark.parametrize(("scored", "per_update"), [(10, 4), (380, 4), (3000, 4), (3000, 32), (0, 4)])
def test_scoring_takes_at_most_a_quarter_of_the_time_unless_it_would_select_nothing(
    scored: int, per_update: int
) -> None:
    budget = Budget.of(TrainConfig(updates=2000), 13, scored, per_update)
    evaluations = sum(budget.due(step) for step in range(1, budget.total + 1))
    training = 3 * per_update * budget.total  # a sentence forward and backward costs three times a forward pass
    assert evaluations <= 21
    # The rounded interval may add one evaluation, the one at the end.
    assert (evaluations - 1) * scored <= 0.26 * training or evaluations == 5
    assert budget.due(budget.total)


def test_what_is_logged_is_averaged_over_the_updates_since_the_last_evaluation() -> None:
    budget = Budget.of(TrainConfig(updates=105), steps_per_epoch=1)
    ends = [step for step in range(1, 106) if budget.due(step)]
    assert sum(budget.since_last(step) for step in ends) == 105
