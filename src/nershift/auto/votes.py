"""Does it pay to let several taggers vote? Asked of held-out labels, and of what votes gained elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nershift.auto.race import Belief, Rows, Runner
from nershift.data.spans import Sentence
from nershift.evaluation.metrics import sentence_counts
from nershift.evaluation.stats import Estimate, paired_bootstrap

VOTERS = 3
OF_ONE_RECIPE = Belief(0.007, 0.01)  # trainings with other seeds; `python -m experiments.fit.judge show` measures it
OF_SEVERAL = Belief(0.0, 0.03)  # hardly anything is known of votes of different recipes
_SDS = 3.92  # standard deviations in a 95% interval


@dataclass(frozen=True)
class Ballot:
    """A vote of recipes, each with a seed, against the winner alone.

    Attributes:
        gain: F1 of the vote minus that of the winner, over held-out sentences; None: there was no time to judge it.
        elsewhere: the same on other corpora.
    """

    voters: tuple[str, ...]
    gain: Estimate | None
    elsewhere: Belief = OF_SEVERAL

    @property
    def expected(self) -> float:
        """Both weighed by how sure they are, as recipes are."""
        if self.gain is None:
            return self.elsewhere.mean
        here = 1 / max((self.gain.high - self.gain.low) / _SDS, 1e-3) ** 2
        prior = 1 / self.elsewhere.sd**2
        return (here * self.gain.value + prior * self.elsewhere.mean) / (here + prior)

    @property
    def pays(self) -> bool:
        """A vote takes three times as long to tag: labels that speak against it are a veto, however few."""
        return self.expected > 0 and (self.gain is None or self.gain.value >= 0)


def ballot(winner: Runner, others: Sequence[Runner], elsewhere: Belief = OF_SEVERAL) -> Ballot | None:
    """The vote of the winner with two others that ran all of its trials; None where there are no two."""
    from nershift.evaluation.vote import vote as count_votes

    trials = sorted(winner.predictions)
    able = [r for r in others if r is not winner and not r.failed and set(trials) <= set(r.predictions)]
    voters = [winner, *able[: VOTERS - 1]]
    if len(voters) < VOTERS or not trials:
        return None
    rows: list[Rows] = []
    for trial in trials:
        gold = winner.predictions[trial][0]
        answers: list[Sequence[Sentence]] = [r.predictions[trial][1] for r in voters]
        rows.append(sentence_counts(gold, count_votes(answers)))
    gain, _ = paired_bootstrap(winner.counts(trials), np.concatenate(rows))
    return Ballot(tuple(r.name for r in voters), gain, elsewhere)
