"""A model soup: several trainings from the same start, each with its own randomness, averaged into one model.

Weights fine-tuned from one start lie close enough together for their mean to be a model too: often a better one than
each of them, at the inference cost of one (Wortsman et al. 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from nershift.training.loop import restore, trainable
from nershift.training.seeding import number
from nershift.training.stage import TrainingStage

AVERAGE = "average of "  # names the average of a stage beside its trainings


def draw_anew(stage: TrainingStage, k: int) -> None:
    """Make an untrained ``stage`` the ``k``-th training of its kind: other batch orders, other dropout."""
    stage.name = f"{stage.name}-{k}"
    stage.seed = number(stage.seed, "training", k)
    for sampler in stage.samplers.values():
        sampler.seed = number(sampler.seed, "training", k)


class ModelSoup:
    """The weights of several trainings of one kind, and their average in the model of the ``first``."""

    first: TrainingStage

    def __init__(self) -> None:
        self.weights: dict[str, dict[str, Tensor]] = {}
        self.scores: dict[str, float] = {}

    def add(self, stage: TrainingStage, best: float | None) -> None:
        """Add a trained stage and its dev score."""
        if not self.weights:
            self.first = stage
        self.weights[stage.name] = {name: p.cpu().clone() for name, p in trainable(stage.model).items()}
        if best is not None:
            self.scores[stage.name] = best

    def average(self, score: Callable[[], float | None]) -> dict[str, Any]:
        """Put the mean into ``first.model``: of the trainings that improve the dev score, or of all without one.

        Args:
            score: the dev score of the weights in ``first.model``.

        Returns:
            Which trainings it is the mean ``of``, and its ``dev_f1``.
        """
        names, best = list(self.weights), None
        if len(self.scores) == len(self.weights):
            names, best = self._choose(score)
        self._put(names)
        return {"of": names, "dev_f1": best}

    def _choose(self, score: Callable[[], float | None]) -> tuple[list[str], float]:
        """Best first, each joins unless that lowers the score of the average."""
        ranked = sorted(self.scores, key=lambda name: -self.scores[name])  # ties: the earlier training first
        taken, best = ranked[:1], self.scores[ranked[0]]
        for name in ranked[1:]:
            self._put([*taken, name])
            if (joined := score() or 0.0) >= best:
                taken, best = [*taken, name], joined
        return taken, best

    def _put(self, names: Sequence[str]) -> None:
        chosen = [self.weights[name] for name in names]
        mean = {name: torch.stack([weights[name] for weights in chosen]).mean(0) for name in chosen[0]}
        restore(self.first.model, mean, "average")
