"""How long a stage trains and how often it is scored, in updates: few labels need as many updates as many do."""

from __future__ import annotations

from dataclasses import dataclass

from nershift.config import TrainConfig

_BATCH_SIZES = ((200, 4), (1000, 8), (4000, 16))  # up to so many sentences: sentences per batch
_LARGEST_BATCH = 32
_EVALUATIONS = 20  # at most, where updates give the length
_FEWEST_EVALUATIONS = 5  # with fewer, a dev split selects nothing
_EVALUATION_SHARE = 0.25  # of the time of training: how much scoring may take, but for the fewest evaluations
_TRAINING_COST = 3  # of a sentence, forward and backward, if tagging it costs 1
_DECAY_UPDATES = 100  # per unit of lr_decay where updates give the length


def batch_size(sentences: int) -> int:
    """Sentences per batch for a training set of this size.

    Example:
        >>> [batch_size(n) for n in (10, 500, 14_000)]
        [4, 8, 32]
    """
    return next((size for most, size in _BATCH_SIZES if sentences <= most), _LARGEST_BATCH)


@dataclass(frozen=True)
class Budget:
    """The length of a stage in updates, and what follows from it.

    Attributes:
        total: updates.
        every: updates from one evaluation to the next.
        by_epochs: the settings give the length in epochs, as papers do. Then an epoch is also the unit of evaluations,
            patience and the inverse schedule.
        steps_per_epoch: updates in a pass over the training data.
    """

    total: int
    every: int
    by_epochs: bool
    steps_per_epoch: int

    @classmethod
    def of(cls, config: TrainConfig, steps_per_epoch: int, scored: int = 0, per_update: int = 0) -> Budget:
        """The budget that the settings of a stage give.

        Args:
            scored: sentences that an evaluation tags.
            per_update: sentences that an update learns from.

        Example:
            >>> Budget.of(TrainConfig(), steps_per_epoch=13).total, Budget.of(TrainConfig(epochs=30), 2).total
            (1000, 60)
        """
        if config.epochs:
            total = config.epochs * steps_per_epoch
            total = min(total, config.updates) if config.updates else total
            return cls(total, steps_per_epoch, True, steps_per_epoch)
        total = config.updates or max(config.min_updates, config.passes * steps_per_epoch)
        affordable = scored / (_EVALUATION_SHARE * _TRAINING_COST * per_update) if per_update else 0
        every = max(-(-total // _EVALUATIONS), min(round(affordable), total // _FEWEST_EVALUATIONS), 1)
        return cls(total, every, False, steps_per_epoch)

    def due(self, step: int) -> bool:
        """Is the model scored after this many updates?"""
        return step % self.every == 0 or step == self.total

    def since_last(self, step: int) -> int:
        """Updates from the evaluation before to the one that is due at ``step``."""
        return (step - 1) % self.every + 1

    def epoch(self, step: int) -> int:
        """The pass over the data, counted from 1, that update ``step`` belongs to."""
        return -(-step // self.steps_per_epoch)

    def exhausted(self, config: TrainConfig, stale: int) -> bool:
        """Is patience at its end after so many evaluations without a better score?"""
        waited = stale if self.by_epochs else stale * self.every
        return bool(config.patience) and waited >= config.patience

    def decay_units(self, step: int) -> int:
        """What the inverse schedule counts: epochs, or hundreds of updates."""
        return step // (self.steps_per_epoch if self.by_epochs else _DECAY_UPDATES)

    def averaging_since(self, config: TrainConfig) -> int:
        """The update after which weights are averaged."""
        return self.total - round(config.average_last * self.total)
