"""Ranks, Friedman and Nemenyi against scipy."""

from __future__ import annotations

import numpy as np
import pytest

from nershift.errors import DataError
from nershift.evaluation.ranks import Ranking, chi2_beyond, critical_difference, rank_systems, studentized_range

stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("seed", range(6))
def test_ranks_and_test_are_those_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    systems, datasets = int(rng.integers(3, 9)), int(rng.integers(3, 12))
    table = rng.integers(60, 70 if seed % 2 else 10_000, (systems, datasets)).astype(float)  # odd: many ties
    made = rank_systems({f"s{i}": row for i, row in enumerate(table.tolist())})
    expected = np.mean([stats.rankdata(-column) for column in table.T], 0)
    assert dict(zip(made.names, made.ranks, strict=True)) == pytest.approx({f"s{i}": r for i, r in enumerate(expected)})
    assert list(made.ranks) == sorted(made.ranks)
    chi2, p = stats.friedmanchisquare(*table)
    assert made.chi2 == pytest.approx(chi2)
    assert made.p == pytest.approx(p)


def test_quantiles_are_those_of_scipy() -> None:
    for k in (2, 3, 5, 10, 20):
        for level in (0.9, 0.95, 0.99):
            assert studentized_range(k, level) == pytest.approx(stats.studentized_range.ppf(level, k, np.inf), abs=2e-3)
    for df in range(1, 12):
        for x in (0.1, 1.0, 7.5, 40.0):
            assert chi2_beyond(x, df) == pytest.approx(stats.chi2.sf(x, df), rel=1e-9)
    assert chi2_beyond(0.0, 3) == 1.0


def test_the_difference_of_a_known_case() -> None:
    # Four classifiers on fourteen data sets: q = 2.569, so 2.569 * sqrt(4 * 5 / (6 * 14)).
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)


def test_groups_hold_all_that_cannot_be_told_apart() -> None:
    made = Ranking(("a", "b", "c", "d"), (1.0, 1.8, 2.4, 3.9), 10, 0.0, 0.0, 1.0)
    assert made.groups == (("a", "b"), ("b", "c"))
    assert Ranking(("a", "b"), (1.0, 2.0), 4, 0.0, 0.0, 1.0).groups == ()
    assert Ranking(("a", "b", "c"), (1.0, 1.2, 1.9), 4, 0.0, 0.0, 1.0).groups == (("a", "b", "c"),)


def test_all_tied_and_too_few() -> None:
    made = rank_systems({"a": [1, 2, 3], "b": [1, 2, 3], "c": [1, 2, 3]})
    assert made.ranks == (2.0, 2.0, 2.0)
    assert made.p == 1.0
    with pytest.raises(DataError, match="nothing to rank"):
        rank_systems({"a": [1.0], "b": [2.0]})
