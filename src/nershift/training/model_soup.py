"""Several trainings from the same start, each with draws of its own, and the mean of their weights as one model.

Weights that were fine-tuned from one start lie near enough to each other for their mean to be a model too, often a
better one than each of them, at the price of one when it is used ("model soups", Wortsman et al. 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nershift.training.loop import Loop, Progress, restore, trainable
from nershift.training.seeding import number
from nershift.training.stage import TrainingStage

AVERAGE = "average of "  # names the average of a stage beside its trainings


@dataclass(frozen=True)
class Average:
    """The trainings whose mean the model now holds, and its dev score."""

    of: tuple[str, ...]
    score: float | None


def draw_anew(stage: TrainingStage, k: int) -> TrainingStage:
    """``stage``, which has made no step yet, as the ``k``-th training of its kind: other orders, other dropout."""
    stage.name = f"{stage.name}-{k}"
    stage.seed = number(stage.seed, "training", k)
    for sampler in stage.samplers.values():
        sampler.seed = number(sampler.seed, "training", k)
    return stage


def train_and_average(
    first: TrainingStage, again: Callable[[], TrainingStage | None], loop: Callable[[TrainingStage], Loop]
) -> tuple[dict[str, Progress], Average | None]:
    """Train as often as ``first.config.model_soup`` says; afterwards ``first.model`` holds the average.

    Args:
        first: is trained as it would be alone.
        again: gives the same stage again, from the same start.
        loop: what trains a stage.

    Returns:
        what came of each training, by name, and of the average if there was more than one.
    """
    results = {first.name: loop(first).run()}
    if first.config.model_soup == 1:
        return results, None
    weights = {first.name: _weights(first)}
    for k in range(2, first.config.model_soup + 1):
        if (stage := again()) is not None:
            draw_anew(stage, k)
            results[stage.name] = loop(stage).run()
            weights[stage.name] = _weights(stage)
        del stage  # before the next is made
    scores = {name: result.best for name, result in results.items() if result.best is not None}
    taken, score = list(weights), None
    if len(scores) == len(results):
        judge = loop(first)

        def dev(names: Sequence[str]) -> float:
            _put(first, [weights[name] for name in names])
            return judge.score() or 0.0

        taken, score = choose(scores, dev)
    _put(first, [weights[name] for name in taken])
    return results, Average(tuple(taken), score)


def choose(scores: Mapping[str, float], average: Callable[[Sequence[str]], float]) -> tuple[list[str], float]:
    """Best first, each joins unless that lowers the score of the average.

    Example:
        >>> choose({"a": 0.7, "b": 0.8, "c": 0.6}, lambda names: {"ba": 0.81, "bac": 0.80}["".join(names)])
        (['b', 'a'], 0.81)
    """
    ranked = sorted(scores, key=lambda name: -scores[name])  # of equals the earlier
    taken, best = ranked[:1], scores[ranked[0]]
    for name in ranked[1:]:
        if (score := average([*taken, name])) >= best:
            taken, best = [*taken, name], score
    return taken, best


def _weights(stage: TrainingStage) -> dict[str, Tensor]:
    return {name: p.cpu().clone() for name, p in trainable(stage.model).items()}


def _put(stage: TrainingStage, weights: Sequence[Mapping[str, Tensor]]) -> None:
    mean = {name: torch.stack([one[name] for one in weights]).mean(0) for name in weights[0]}
    restore(stage.model, mean, "average")
