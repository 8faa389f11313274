"""Ranks, Friedman and Nemenyi against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from experiments.ranks import Ranking, critical_difference, rank_systems
from nershift.errors import DataError


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


@pytest.mark.parametrize(("systems", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_the_differences_of_the_printed_table(systems: int, q: float) -> None:
    """Demšar (2006), table 5(a)."""
    expected = q * np.sqrt(systems * (systems + 1) / (6 * 14))
    assert critical_difference(systems, 14) == pytest.approx(expected, abs=1e-3)


def test_groups_hold_all_that_cannot_be_told_apart() -> None:
    made = Ranking(("a", "b", "c", "d"), (1.0, 1.8, 2.4, 3.9), 10, 0.0, 0.0, 1.0)
    assert made.groups == (("a", "b"), ("b", "c"))
    assert Ranking(("a", "b"), (1.0, 2.0), 4, 0.0, 0.0, 1.0).groups == ()
    assert Ranking(("a", "b", "c"), (1.0, 1.2, 1.9), 4, 0.0, 0.0, 1.0).groups == (("a", "b", "c"),)


def test_all_tied_and_too_few() -> None:
    two = rank_systems({"a": [2, 3, 4, 5], "b": [1, 2, 3, 4]})  # the sign test: four of four
    assert (two.chi2, two.p) == pytest.approx((4.0, 0.0455), abs=1e-4)
    made = rank_systems({"a": [1, 2, 3], "b": [1, 2, 3], "c": [1, 2, 3]})
    assert made.ranks == (2.0, 2.0, 2.0)
    assert made.p == 1.0
    with pytest.raises(DataError, match="nothing to rank"):
        rank_systems({"a": [1.0], "b": [2.0]})
