"""Intervals and tests against enumeration, textbook values and simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nershift.errors import DataError
from nershift.evaluation.stats import (
    aggregate,
    bootstrap_f1,
    compare,
    f1_of,
    paired_bootstrap,
    randomisation_test,
    seed_difference,
    t_quantile,
)


def system(rng: np.random.Generator, gold: np.ndarray, skill: float) -> np.ndarray:
    """Counts of a made-up system: finds each gold span with probability ``skill``, invents some."""
    correct = rng.binomial(gold, skill)
    return np.stack([correct, correct + rng.binomial(2, (1 - skill) / 2, len(gold)), gold], axis=1)


def plain_f1(rows: np.ndarray) -> float:
    correct, predicted, gold = rows.sum(axis=0)
    return 2 * correct / (predicted + gold) if predicted + gold else 0.0


def enumerated_p(a: np.ndarray, b: np.ndarray) -> float:
    seen, hits, total = abs(plain_f1(a) - plain_f1(b)), 0, 0
    for flips in itertools.product([False, True], repeat=len(a)):
        mask = np.array(flips)[:, None]
        one, two = np.where(mask, b, a), np.where(mask, a, b)
        hits += abs(plain_f1(one) - plain_f1(two)) >= seen - 1e-12
        total += 1
    return hits / total


def test_f1_of_sums() -> None:
    assert f1_of(np.array([[1, 2, 2], [0, 0, 0]])).tolist() == [0.5, 0.0]


@pytest.mark.parametrize("seed", range(5))
def test_randomisation_is_exact_on_small_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 4, 9)
    a, b = system(rng, gold, 0.4), system(rng, gold, 0.8)
    assert randomisation_test(a, b) == pytest.approx(enumerated_p(a, b), abs=1e-12)
    sampled = randomisation_test(a, b, permutations=256)  # fewer than 2^9: drawn, unless few rows differ
    assert sampled == pytest.approx(enumerated_p(a, b), abs=0.12)


def test_sampled_randomisation_approaches_enumeration() -> None:
    rng = np.random.default_rng(3)
    gold = np.full(12, 3)
    a = system(rng, gold, 0.4)
    b = system(rng, gold, 0.6)
    b[:, 1] += (a == b).all(axis=1)  # every sentence differs
    exact = enumerated_p(a, b)
    assert randomisation_test(a, b, permutations=4_000, seed=1) == pytest.approx(exact, abs=0.03)


def test_equal_systems_are_not_different() -> None:
    rows = system(np.random.default_rng(0), np.full(50, 2), 0.5)
    made = compare(rows, rows)
    assert made.p_randomisation == made.p_bootstrap == 1.0
    assert (made.difference.value, made.difference.low, made.difference.high) == (0, 0, 0)
    assert not made.significant
    assert "score the same" in made.verdict()


def test_clear_difference() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 4, 400)
    made = compare(system(rng, gold, 0.5), system(rng, gold, 0.8))
    assert made.significant
    assert made.p_bootstrap < 0.01
    assert made.a.high < made.b.low
    assert made.difference.low > 0
    assert made.verdict("old", "new").startswith("new is better than old by")
    assert set(made.to_dict()) == {
        "a", "b", "difference", "p_randomisation", "p_bootstrap", "sentences", "significant",
    }  # fmt: skip


def test_bootstrap_matches_drawing_sentences() -> None:
    rng = np.random.default_rng(1)
    rows = system(rng, rng.integers(0, 4, 150), 0.6)
    drawn = [plain_f1(rows[rng.integers(0, 150, 150)]) for _ in range(4000)]
    made = bootstrap_f1(rows, samples=4000)
    assert made.value == pytest.approx(plain_f1(rows))
    assert [made.low, made.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]).tolist(), abs=0.004)


def test_seeded() -> None:
    rows = system(np.random.default_rng(1), np.full(40, 2), 0.6)
    assert bootstrap_f1(rows, seed=5) == bootstrap_f1(rows, seed=5) != bootstrap_f1(rows, seed=6)


def test_type_one_error_and_coverage() -> None:
    """Under the null about 5 % of tests reject; about 95 % of intervals hold the truth."""
    rng, rounds = np.random.default_rng(7), 400
    correct, invented, gold_spans = 0.7 * 1.5, 2 * 0.15, 1.5  # expected counts of a sentence
    truth = 2 * correct / (correct + invented + gold_spans)
    rejected = {"randomisation": 0, "bootstrap": 0}
    covered = zero_covered = 0
    for _ in range(rounds):
        gold = rng.integers(0, 4, 200)
        a, b = system(rng, gold, 0.7), system(rng, gold, 0.7)
        difference, p = paired_bootstrap(a, b, samples=500, seed=int(rng.integers(2**31)))
        rejected["bootstrap"] += p < 0.05
        rejected["randomisation"] += randomisation_test(a, b, 1000, int(rng.integers(2**31))) < 0.05
        zero_covered += difference.low <= 0 <= difference.high
        interval = bootstrap_f1(a, samples=500, seed=int(rng.integers(2**31)))
        covered += interval.low <= truth <= interval.high
    # three standard errors of a share of 5 % in 400 rounds are 3.3 points
    assert all(0.017 <= n / rounds <= 0.083 for n in rejected.values()), rejected
    assert 0.91 <= covered / rounds <= 0.99
    assert 0.91 <= zero_covered / rounds <= 0.99


@pytest.mark.parametrize(
    ("p", "df", "table"),
    [(0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 3, 3.182), (0.975, 4, 2.776), (0.975, 9, 2.262),
     (0.95, 10, 1.812), (0.995, 5, 4.032), (0.975, 30, 2.042), (0.975, 2000, 1.961), (0.5, 3, 0.0)],
)  # fmt: skip
def test_t_quantiles_of_the_printed_tables(p: float, df: int, table: float) -> None:
    assert t_quantile(p, df) == pytest.approx(table, abs=6e-4)


def test_seed_summary() -> None:
    made = aggregate([70.0, 72.0, 74.0])
    assert (made.mean, made.sd, made.n) == (72.0, 2.0, 3)
    assert made.high is not None
    assert made.high - made.mean == pytest.approx(4.3027 * 2 / 3**0.5, abs=1e-3)
    assert aggregate([0.5]).to_dict() == {
        "mean": 0.5, "sd": None, "low": None, "high": None, "n": 1, "level": 0.95,
    }  # fmt: skip
    with pytest.raises(DataError):
        aggregate([])


def test_seed_interval_covers() -> None:
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(1000):
        made = seed_difference(rng.normal(0, 1, 5).tolist(), rng.normal(2, 3, 4).tolist())
        assert made.low is not None
        assert made.high is not None
        hits += made.low <= 2 <= made.high
    assert 0.93 <= hits / 1000 <= 0.99


def test_matched_seeds_cancel() -> None:
    a, b = [60.0, 70.0, 80.0], [61.0, 71.1, 81.2]
    matched, loose = seed_difference(a, b, matched=True), seed_difference(a, b)
    assert matched.mean == pytest.approx(loose.mean) == pytest.approx(1.1)
    assert matched.low is not None
    assert loose.low is not None
    assert matched.low > 0 > loose.low
    with pytest.raises(DataError, match="3 runs against 2"):
        seed_difference(a, b[:2], matched=True)


def test_refuses_different_data() -> None:
    a = np.array([[1, 1, 1], [0, 0, 2]])
    with pytest.raises(DataError, match="different test data"):
        randomisation_test(a, a[:1])
    with pytest.raises(DataError, match="different test data"):
        paired_bootstrap(a, a + np.array([0, 0, 1]))
    with pytest.raises(DataError, match="no sentences"):
        bootstrap_f1(a[:0])


def test_speed_on_a_real_size() -> None:
    """3,500 sentences, 1,000 bootstrap samples and 10,000 permutations stay interactive."""
    import time

    rng = np.random.default_rng(0)
    gold = rng.integers(0, 6, 3500)
    a, b = system(rng, gold, 0.7), system(rng, gold, 0.72)
    start = time.perf_counter()
    compare(a, b)
    assert time.perf_counter() - start < 5
