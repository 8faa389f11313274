"""Confidences against the truth: hand-made cases, grids and simulations as oracles."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nershift.data.spans import Sentence, Span
from nershift.evaluation.calibration import (
    Reliability,
    binomial_low,
    confidences_and_truth,
    fit_temperature,
    log_loss,
    reliability,
    threshold,
    thresholds,
)


def test_the_error_of_a_case_worked_out_by_hand() -> None:
    confidences = np.array([0.92, 0.98, 0.95, 0.95, 0.61, 0.69, 0.1, 1.0])
    right = np.array([True, True, True, False, True, False, False, True])
    found = reliability(confidences, right)
    # last bin: mean 0.96, right 0.8 of 5; 0.6-0.7: mean 0.65, right 0.5 of 2; 0.1-0.2: mean 0.1, right 0 of 1
    assert [(round(b.confidence, 6), b.accuracy, b.n) for b in found.bins] == [
        (0.1, 0.0, 1), (0.65, 0.5, 2), (0.96, 0.8, 5),
    ]  # fmt: skip
    assert found.ece == pytest.approx((5 * 0.16 + 2 * 0.15 + 1 * 0.1) / 8)
    again = Reliability.from_dict(found.to_dict())
    assert again.n == 8
    assert again.ece == pytest.approx(found.ece, abs=1e-4)


def test_log_loss_by_hand() -> None:
    value = log_loss(np.array([0.8, 0.4]), np.array([1.0, 0.0]))
    assert value == pytest.approx(-(np.log(0.8) + np.log(0.6)) / 2)
    assert np.isfinite(log_loss(np.array([0.0, 1.0]), np.array([1.0, 0.0])))
    assert log_loss(np.array([]), np.array([])) == 0.0


def test_confidences_are_read_off_predictions() -> None:
    gold = [Sentence.of(["Ada", "left", "Rome"], [(0, 1, "PER"), (2, 3, "LOC")])]
    found = [gold[0].with_spans([Span(0, 1, "PER", 0.9), Span(1, 2, "LOC", 0.2), Span(2, 3, "PER", 0.4)])]
    scores, right = confidences_and_truth(gold, found)
    assert scores.tolist() == [0.9, 0.2, 0.4]
    assert right.tolist() == [True, False, False]
    assert confidences_and_truth(gold, gold)[0].tolist() == []  # no scores, nothing to judge


@pytest.mark.parametrize("true_temperature", [0.5, 1.0, 1.7, 3.0])
def test_the_temperature_is_the_best_of_a_grid_and_near_the_true_one(true_temperature: float) -> None:
    rng = np.random.default_rng(int(10 * true_temperature))
    logits = rng.normal(1.0, 2.0, 30_000)
    right = rng.random(30_000) < 1 / (1 + np.exp(-logits / true_temperature))

    def at(temperature: float) -> np.ndarray:
        return 1 / (1 + np.exp(-logits / temperature))

    found = fit_temperature(at, right)
    grid = np.geomspace(0.25, 8, 400)
    best = grid[np.argmin([log_loss(at(t), right.astype(float)) for t in grid])]
    assert found == pytest.approx(best, rel=0.03)
    assert found == pytest.approx(true_temperature, rel=0.15)
    assert reliability(at(found), right).ece < 0.02


def test_a_few_right_entities_are_no_reason_to_be_certain() -> None:
    logits = np.full(10, 2.0)
    found = fit_temperature(lambda t: 1 / (1 + np.exp(-logits / t)), np.ones(10, dtype=bool))
    assert 1 / (1 + np.exp(-2.0 / found)) == pytest.approx(11 / 12, abs=0.01)
    assert fit_temperature(lambda t: np.array([]), np.array([], dtype=bool)) == 1.0


def test_at_the_bound_so_many_right_ones_are_as_rare_as_the_level_says() -> None:
    for correct, n, level in ((59, 59, 0.95), (3, 4, 0.9), (950, 1000, 0.9975), (1, 30, 0.99)):
        low = binomial_low(correct, n, level)
        tail = sum(math.comb(n, k) * low**k * (1 - low) ** (n - k) for k in range(correct, n + 1))
        assert tail == pytest.approx(1 - level, rel=1e-9)
    assert binomial_low(0, 5) == 0.0


def test_a_threshold_keeps_what_it_says() -> None:
    rng = np.random.default_rng(0)
    confidences = rng.random(2000)
    right = rng.random(2000) < confidences
    made = threshold(confidences, right, 0.8)
    assert made.confidence is not None
    kept = confidences >= made.confidence
    assert made.found == pytest.approx(right[kept].mean())
    assert made.kept == pytest.approx(kept.mean())
    assert made.low is not None
    assert 0.8 <= made.low < made.found
    stricter = threshold(confidences, right, 0.9)
    assert stricter.confidence is not None
    assert stricter.confidence > made.confidence


def test_a_promise_that_cannot_be_kept_is_not_made() -> None:
    few = threshold(np.array([0.9] * 20), np.ones(20, dtype=bool), 0.95)
    assert few.confidence is None  # twenty right ones do not show a precision of 0.95
    assert threshold(np.array([]), np.array([], dtype=bool), 0.5).confidence is None
    ties = threshold(np.full(400, 0.7), np.arange(400) % 2 == 0, 0.4)
    assert (ties.confidence, ties.kept) == (0.7, 1.0)
    assert [t.precision for t in thresholds(np.array([0.5]), np.array([True]))] == [0.8, 0.9, 0.95, 0.98]


def test_the_promise_holds_in_repetitions() -> None:
    """Of many dev sets, at most one in twenty may lead to a threshold whose true precision is too low."""
    rng = np.random.default_rng(1)
    broken = made = 0
    for _ in range(300):
        confidences = rng.beta(4, 1, 400)
        truth = confidences**2  # overconfident: what is told as 0.9 is right in 0.81 of all cases
        chosen = threshold(confidences, rng.random(400) < truth, 0.8)
        if chosen.confidence is not None:
            made += 1
            grid = np.linspace(chosen.confidence, 1, 2001)
            density = grid**3
            broken += float((grid**2 * density).sum() / density.sum()) < 0.8
    assert made > 200
    assert broken / made <= 0.05
