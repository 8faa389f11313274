"""How long a recipe trains: its updates, times what an update takes here.

The numbers were fitted on our own results (one core). A few updates that are timed on this machine, with the target's
text, correct them, and every finished job corrects them again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nershift.auto.evidence import Knowledge
from nershift.auto.recipe import Recipe
from nershift.auto.situation import Situation
from nershift.config import Config, TrainConfig
from nershift.methods import METHODS
from nershift.methods.base import Method
from nershift.run_settings import resolve
from nershift.training.budget import Budget, batch_size

# Seconds of an update of four sentences of 20 tokens on one core, and how they grow with the sentences in a batch.
_PLAIN, _PLAIN_GROWS = 0.0136, 0.10
_PRETRAINED, _PRETRAINED_GROWS = 0.16, 0.65  # of an encoder with 10.6 million weights in its layers
_MILLIONS = 10.6
_SMALL_BATCH, _TOKENS = 4, 20.0
_FIXED = 0.33  # share of the time of an update that does not grow with the length of sentences
_OVERHEAD = 1.5  # of a job: data, a model, scores


@dataclass(frozen=True)
class Cost:
    """Seconds on one core: learning from the sources, which several jobs can share, and each training after it."""

    pretrain: float
    train: float

    @property
    def alone(self) -> float:
        return self.pretrain + self.train


@dataclass
class Speed:
    """How much slower this machine is than the one the numbers are from; by kind of encoder."""

    plain: float = 1.0
    pretrained: float = 1.0

    def of(self, recipe: Recipe) -> float:
        return self.pretrained if recipe.transformer else self.plain

    def learn(self, recipe: Recipe, expected: float, took: float, weight: float = 0.5) -> None:
        """Move towards what a finished job says; ``expected`` was computed with the present speed."""
        factor = (took / expected) ** weight
        if recipe.transformer:
            self.pretrained *= factor
        else:
            self.plain *= factor


def cost(recipe: Recipe, here: Situation, known: Knowledge, speed: Speed, folds: int = 0) -> Cost:
    """What a recipe costs here.

    Args:
        folds: of the labels, one of which is held out of training; 0: none is.
    """
    config = resolve(recipe.method, recipe.settings_for(here.encoder.place if here.encoder else None))
    cls, own = METHODS[recipe.method], here.labelled - (here.labelled // folds if folds else 0)
    others = sum(source.sentences for source in here.sources) if "sources" in recipe.needs else 0
    first, second = _updates(cls, config, own, others)
    per = _per_update(recipe, here)
    slow = speed.of(recipe) * _slower(recipe, here, known)
    return Cost(
        first and _OVERHEAD + slow * first * per(config.pretrain.batch_size or batch_size(others), _in_sources(here)),
        second and _OVERHEAD + slow * second * per(_batch(config.train, own, others, cls), here.tokens or _TOKENS),
    )


def _in_sources(here: Situation) -> float:
    """Tokens in a sentence of the sources, which take turns, on average."""
    able = [s.tokens for s in here.sources if s.sentences]
    return sum(able) / len(able) if able else _TOKENS


def base_cost(recipe: Recipe, here: Situation) -> float:
    """Seconds on the reference machine of everything a recipe trains, by updates alone."""
    return cost(recipe, here, Knowledge(()), Speed()).alone


def _slower(recipe: Recipe, here: Situation, known: Knowledge) -> float:
    """How much longer our runs of a recipe took than their updates say: what a method does beside plain training."""
    took = known.seconds(recipe.name, here)
    return min(max(took / base_cost(recipe, here), 0.5), 20.0) if took else 1.0


def _updates(cls: type[Method], config: Config, own: int, others: int) -> tuple[int, int]:
    """Of the stage on the sources and of that on the target; 0: there is no such stage."""
    first = second = 0
    if cls.pretrain is not Method.pretrain and others:
        size = config.pretrain.batch_size or batch_size(others)
        first = Budget.of(config.pretrain, max(1, -(-others // size))).total
    if cls.train is not Method.train:
        learned = own + others if cls.pools_sources else own
        second = Budget.of(config.train, max(1, -(-learned // _batch(config.train, own, others, cls)))).total
    return first * config.pretrain.model_soup, second * config.train.model_soup


def _batch(config: TrainConfig, own: int, others: int, cls: type[Method]) -> int:
    return config.batch_size or batch_size(own + others if cls.pools_sources else own)


def _per_update(recipe: Recipe, here: Situation) -> Callable[[int, float], float]:
    """Seconds by sentences in a batch and tokens in a sentence."""
    pretrained = recipe.transformer
    grows = _PRETRAINED_GROWS if pretrained else _PLAIN_GROWS
    base = _PLAIN
    if pretrained and here.encoder is not None:
        base = _PRETRAINED * here.encoder.millions / _MILLIONS

    def seconds(batch: int, tokens: float) -> float:
        longer = _FIXED + (1 - _FIXED) * tokens / _TOKENS
        return base * longer * (1 + grows * batch) / (1 + grows * _SMALL_BATCH)

    return seconds


def reference(here: Situation, pretrained: bool) -> float:
    """What a probe's update takes on the machine that the numbers are from."""
    recipe = Recipe("", "", "target_only", needs=("labels", "encoder") if pretrained else ("labels",))
    return _per_update(recipe, here)(batch_size(max(here.labelled, 1)), here.tokens or _TOKENS)


def in_words(seconds: float) -> str:
    """A duration as people say it.

    Example:
        >>> in_words(42), in_words(260), in_words(9000)
        ('42 s', '4 min 20 s', '2 h 30 min')
    """
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
