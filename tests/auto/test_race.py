"""The race: small trials cannot overturn evidence, large ones do, and the worse half leaves."""

from __future__ import annotations

import math

import pytest

from nershift.auto.evidence import Expected
from nershift.auto.race import Belief, Runner, after_round, beliefs, final_order, ranked, rounds
from nershift.data.spans import Sentence

GOLD = Sentence.of(["Ada", "met", "Bo"], [(0, 1, "PER"), (2, 3, "PER")])


def runner(name: str, gain: float, right: int = 0, wrong: int = 0, trials: int = 1, doubt: float = 0.04) -> Runner:
    """A recipe that finds all entities of some sentences and none of the others, in each trial."""
    made = Runner(name, Expected(gain, doubt, 1.0))
    for trial in range(trials if right or wrong else 0):
        guesses = [GOLD] * right + [GOLD.with_spans(())] * wrong
        made.predictions[trial] = ([GOLD] * len(guesses), guesses)
    return made


def test_rounds_hold_all_trials_once() -> None:
    for trials in range(1, 20):
        assert [t for part in rounds(trials) for t in part] == list(range(trials))
    assert rounds(0) == []


def test_without_trials_beliefs_are_the_evidence() -> None:
    believed = beliefs([runner("a", 0.0), runner("b", 0.1)])
    assert believed["b"].mean - believed["a"].mean == pytest.approx(0.1)
    assert believed["a"].sd == pytest.approx(0.04)


def test_ten_sentences_do_not_overturn_evidence_but_a_thousand_do() -> None:
    few = [runner("known good", 0.06, right=6, wrong=4), runner("lucky", -0.06, right=7, wrong=3)]
    assert ranked(few)[0].name == "known good"
    many = [runner("known good", 0.06, right=600, wrong=400), runner("better", -0.06, right=900, wrong=100)]
    assert ranked(many)[0].name == "better"


def test_beliefs_are_the_product_of_two_normals() -> None:
    """With noise far below the doubt the measured difference stands; far above it, the evidence."""
    pair = [runner("a", 0.0, right=5000, wrong=5000, doubt=10.0), runner("b", 0.0, right=6000, wrong=4000, doubt=10.0)]
    believed = beliefs(pair)
    f1 = [2 * r / (2 * r + w) for r, w in ((5000, 5000), (6000, 4000))]
    assert believed["b"].mean - believed["a"].mean == pytest.approx(f1[1] - f1[0], abs=0.002)
    stubborn = [runner("a", 0.0, right=5, wrong=5, doubt=1e-4), runner("b", 0.02, right=5, wrong=5, doubt=1e-4)]
    assert beliefs(stubborn)["b"].mean == pytest.approx(0.01, abs=1e-3)


def test_what_a_recipe_ran_ahead_is_forgotten_when_it_leaves() -> None:
    """Whether a free place worked ahead depends on the clock: it may change no score that is told."""
    ahead = runner("a", 0.0, right=10, wrong=990, trials=2)
    field = [ahead, *(runner(f"r{i}", 0.0, right=900, wrong=100) for i in range(3))]
    assert ahead not in after_round(field, [0])
    assert (ahead.left, list(ahead.predictions)) == (1, [0])


def test_half_leave_and_three_stay_unless_one_is_hopeless() -> None:
    field = [runner(f"r{i}", 0.0, right=50 + i, wrong=50 - i) for i in range(8)]
    staying = after_round(field, [0])
    assert len(staying) == 4
    assert len(after_round([runner(f"r{i}", 0.0, right=50 + i, wrong=50 - i) for i in range(4)], [0])) == 3
    assert {r.name for r in field if r.left == 1} == {r.name for r in field} - {r.name for r in staying}
    two = [runner("a", 0.0, right=50, wrong=50), runner("b", 0.0, right=52, wrong=48)]
    assert len(after_round(two, [0])) == 2
    apart = [runner("a", 0.0, right=10, wrong=990), runner("b", 0.0, right=990, wrong=10)]
    assert [r.name for r in after_round(apart, [0])] == ["b"]


def test_trials_that_were_run_ahead_do_not_count_yet() -> None:
    """Who was quick must not matter: only the trials of the rounds so far are looked at."""
    a, b = runner("a", 0.0, right=60, wrong=40, trials=1), runner("b", 0.0, right=50, wrong=50, trials=1)
    before = beliefs([a, b], [0])
    for late in (a, b):
        late.predictions[1] = ([GOLD] * 100, [GOLD.with_spans(())] * 100)
    assert beliefs([a, b], [0]) == before
    assert beliefs([a, b]) != before


def test_who_failed_is_out() -> None:
    broken = runner("a", 1.0)
    broken.failed = "no memory"
    assert [r.name for r in final_order([broken, runner("b", 0.0)])] == ["b"]


def test_the_winner_is_among_those_that_stayed() -> None:
    early, late, stayed = runner("early", 0.5), runner("late", 0.4), runner("stayed", 0.0)
    early.left, late.left = 1, 3
    assert [r.name for r in final_order([early, late, stayed])] == ["stayed", "late", "early"]


def test_probability_of_being_better() -> None:
    assert Belief(0.0, 1.0).beats(Belief(0.0, 1.0)) == 0.5
    assert Belief(1.0, 0.0).beats(Belief(0.0, 1.0)) == pytest.approx(0.5 * (1 + math.erf(1 / math.sqrt(2))))
