"""Curves through scores: known ones are found again, bounds hold, and intervals cover what they should."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nershift.errors import DataError
from nershift.labelling.power_law import PowerLaw, fit

SIZES = (25, 50, 100, 200, 400)
LAW = PowerLaw(ceiling=0.82, drop=1.7, rate=0.45)


def exact(law: PowerLaw, seeds: int = 1) -> list[list[float]]:
    return [[law(n) for n in SIZES]] * seeds


@pytest.mark.parametrize("law", [LAW, PowerLaw(0.95, 0.8, 0.2), PowerLaw(0.6, 20.0, 1.3), PowerLaw(1.0, 1.1, 0.3)])
def test_a_known_curve_is_found(law: PowerLaw) -> None:
    found = fit(SIZES, exact(law))
    assert found.error < 1e-4
    assert found.law(800) == pytest.approx(law(800), abs=1e-3)
    assert found.law.needed(law(300)) == pytest.approx(300, rel=0.01)


def test_flat_scores_give_a_flat_curve() -> None:
    found = fit(SIZES, [[0.5] * 5])
    assert found.law(10_000) == pytest.approx(0.5)
    assert found.reach(0.51).where == "not reachable"
    assert found.reach(0.49).where == "below the data"


def test_falling_scores_do_not_give_a_falling_curve() -> None:
    law = fit(SIZES, [[0.6, 0.58, 0.57, 0.55, 0.5]]).law
    assert law.drop == 0
    assert law(1) == law(1000) == pytest.approx(0.56)


def test_least_squares_against_many_guesses() -> None:
    """No point of a fine grid over all three parameters does better."""
    scores = np.array([0.31, 0.42, 0.44, 0.58, 0.6])
    mine = sum((LAW_(n) - y) ** 2 for LAW_ in [fit(SIZES, [scores]).law] for n, y in zip(SIZES, scores, strict=True))
    a, b, c = np.meshgrid(np.linspace(0, 1, 101), np.linspace(0, 5, 101), np.linspace(0.05, 2, 60), indexing="ij")
    errors = sum((a - b * n**-c - y) ** 2 for n, y in zip(SIZES, scores, strict=True))
    assert mine <= float(np.min(errors)) + 1e-6


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=1, max_size=4))
def test_any_scores_give_a_curve_within_bounds(scores: list[list[float]]) -> None:
    found = fit((10, 20, 40, 80), scores, samples=20)
    for law in (found.law, *found.samples):
        assert 0 <= law.ceiling <= 1
        assert law.drop >= 0
        assert 0.05 <= law.rate <= 2 + 1e-9
    assert found.law(20) <= found.law(30) <= found.law(10**6) <= 1
    reach = found.reach(0.7)
    assert reach.sentences >= 1
    assert reach.to_dict()["sentences"] is None or math.isfinite(reach.to_dict()["sentences"])


def test_where_the_answer_lies() -> None:
    found = fit(SIZES, exact(LAW))
    cases = {
        30: "within the data",
        700: "beyond the data",
        900: "beyond twice the data",
        10: "below the data",
    }
    for n, where in cases.items():
        reach = found.reach(LAW(n))
        assert reach.where == where
        assert reach.sentences == pytest.approx(n, rel=0.05)
    never = found.reach(0.83)
    assert (never.where, never.sentences, never.to_dict()["sentences"]) == ("not reachable", math.inf, None)
    assert never.low is None  # one seed has no spread


def test_what_was_measured_outdoes_the_curve() -> None:
    steep = [[0.2, 0.2, 0.9, 0.9, 0.9]] * 2
    found = fit(SIZES, steep, samples=10)
    assert found.law.needed(0.9) > 100
    assert found.reach(0.9).sentences == 100
    assert fit(SIZES, [[0.2, 0.9, 0.5, 0.6, 0.7]]).reach(0.88).sentences > 50  # a lucky point is not enough


def test_the_same_seed_gives_the_same_interval_and_more_noise_a_wider_one() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.01, (4, 5))
    base = np.array(exact(LAW, 4))
    little, much = (fit(SIZES, base + k * noise, samples=200).at(800) for k in (0.3, 1.5))
    assert little == fit(SIZES, base + 0.3 * noise, samples=200).at(800)
    assert little[2] - little[1] < much[2] - much[1]  # type: ignore[operator]


@pytest.mark.parametrize("seeds", [3, 5])
def test_intervals_cover_the_truth(seeds: int) -> None:
    """With seeds that differ by a common and an own part, about 95 % of intervals hold the true number."""
    rng = np.random.default_rng(seeds)
    hits, runs = 0, 60
    for _ in range(runs):
        scores = np.array(exact(LAW, seeds)) + rng.normal(0, 0.01, (seeds, 1)) + rng.normal(0, 0.01, (seeds, 5))
        reach = fit(SIZES, scores, samples=150).reach(0.7)
        assert reach.low is not None
        assert reach.high is not None
        hits += reach.low <= LAW.needed(0.7) <= reach.high
    assert hits / runs > 0.85


def test_too_little_to_fit() -> None:
    with pytest.raises(DataError, match="at least 3 different sizes"):
        fit((10, 20), [[0.1, 0.2]])
    with pytest.raises(DataError, match="a score of each seed"):
        fit((10, 20, 30), [[0.1, 0.2]])
