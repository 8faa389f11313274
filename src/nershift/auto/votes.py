"""Does it pay to let several taggers vote? Asked of the same held-out labels that the recipes were compared on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nershift.auto.race import Rows, Runner
from nershift.data.spans import Sentence
from nershift.evaluation.metrics import sentence_counts
from nershift.evaluation.stats import Estimate, paired_bootstrap

VOTERS = 3


@dataclass(frozen=True)
class Ballot:
    """A vote of recipes, each with a seed, against the winner alone."""

    voters: tuple[str, ...]
    gain: Estimate  # F1 of the vote minus that of the winner, over sentences

    @property
    def pays(self) -> bool:
        """Is the vote better, whatever the interval: three models are seldom worse than the best of them."""
        return self.gain.value > 0


def ballot(winner: Runner, others: Sequence[Runner]) -> Ballot | None:
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
    return Ballot(tuple(r.name for r in voters), gain)
