"""Votes: what held-out labels say of them, what other corpora say, and both weighed."""

from __future__ import annotations

import pytest

from nershift.auto.evidence import Expected
from nershift.auto.race import Belief, Runner
from nershift.auto.votes import OF_ONE_RECIPE, Ballot, ballot
from nershift.data.spans import Sentence
from nershift.evaluation.stats import Estimate

GOLD = Sentence.of(["Ada", "met", "Bo"], [(0, 1, "PER"), (2, 3, "PER")])
NONE = GOLD.with_spans(())


def runner(name: str, *guesses: Sentence) -> Runner:
    return Runner(name, Expected(0.0, 0.04, 1.0), {0: ([GOLD] * len(guesses), guesses)})


def test_two_right_voters_correct_the_winner() -> None:
    winner = runner("a", GOLD, NONE, GOLD, GOLD)
    found = ballot(winner, [runner("a@2", GOLD, GOLD, NONE, GOLD), runner("a@3", GOLD, GOLD, GOLD, GOLD)])
    assert found is not None
    assert found.voters == ("a", "a@2", "a@3")
    assert found.gain is not None
    assert found.gain.value == pytest.approx(1 - 6 / 7)
    assert ballot(winner, [runner("a@2", GOLD, GOLD, GOLD, GOLD)]) is None  # two cannot outvote each other


def test_without_a_judgement_other_corpora_decide() -> None:
    assert Ballot(("a",), None, OF_ONE_RECIPE).expected == OF_ONE_RECIPE.mean
    assert Ballot(("a",), None, OF_ONE_RECIPE).pays
    assert not Ballot(("a",), None).pays  # nothing is known of votes of several recipes


@pytest.mark.parametrize(("gain", "pays"), [(0.02, True), (0.0, True), (-0.001, False)])
def test_held_out_labels_have_a_veto(gain: float, pays: bool) -> None:
    found = Ballot(("a",), Estimate(gain, gain - 0.2, gain + 0.2, 0.95), OF_ONE_RECIPE)
    assert found.expected > 0
    assert found.pays is pays


def test_both_are_weighed_as_two_normals() -> None:
    """Equal doubts: the mean of the two."""
    gain = Estimate(0.03, 0.03 - 1.96 * 0.01, 0.03 + 1.96 * 0.01, 0.95)
    assert Ballot(("a",), gain, Belief(0.01, 0.01)).expected == pytest.approx(0.02)
