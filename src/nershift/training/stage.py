"""A stage of training: which batches a step wants and what it does with them. The loop does the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from nershift.config import TrainConfig
from nershift.data.spans import Sentence
from nershift.errors import ConfigError
from nershift.evaluation.metrics import score
from nershift.model import Batch, TaggingModel
from nershift.training.adversarial_embeddings import AdversarialEmbeddings
from nershift.training.budget import Budget
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import generator

Backward = Callable[[Tensor], None]


class TrainingStage:
    """Supervised training on all samplers; methods override :meth:`loss`, :meth:`draw` or :meth:`gradients`.

    Args:
        name: names the stage in logs and checkpoints; part of what seeds its randomness.
        samplers: by name; by default every step takes one batch from each.
        dev: what model selection looks at: (head key, sentences) pairs, whose F1 is averaged. Without any,
            the last weights are kept.
    """

    # Whether :meth:`gradients` can be recorded and replayed: what it does on the GPU only depends on the batches there.
    # A subclass with its own loss or gradients has to say so again.
    cuda_graph_safe: ClassVar[bool] = True
    reported: ClassVar[tuple[str, ...]] = ()  # log values whose last one stands among the results of the stage
    score_name: str = "dev_f1"  # of what :meth:`validate` returns

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        own = vars(cls)
        if "cuda_graph_safe" not in own and ("loss" in own or "gradients" in own):
            cls.cuda_graph_safe = False

    def __init__(
        self,
        name: str,
        model: TaggingModel,
        config: TrainConfig,
        samplers: Mapping[str, BatchSampler],
        seed: int,
        dev: Sequence[tuple[str, Sequence[Sentence]]] = (),
        steps_per_epoch: int | None = None,
    ) -> None:
        self.name, self.model, self.config, self.samplers, self.seed = name, model, config, dict(samplers), seed
        self.dev = [(key, sentences) for key, sentences in dev if sentences]
        self.steps_per_epoch = steps_per_epoch or max(sampler.per_epoch for sampler in self.samplers.values())
        self.monitors: dict[str, tuple[str, Sequence[Sentence]]] = {}  # scored and logged, never used for selection
        self._scored: dict[tuple[str, int], list[tuple[Sequence[int], Batch]]] = {}  # batches of what is scored
        self._check()

    @property
    def budget(self) -> Budget:
        """How long the stage trains, and how often it is scored."""
        scored = sum(len(sentences) for _, sentences in (*self.dev, *self.monitors.values()))
        return Budget.of(self.config, self.steps_per_epoch, scored, self.sentences_per_update)

    @property
    def sentences_per_update(self) -> int:
        return self.config.accumulate * sum(sampler.batch_size for sampler in self.samplers.values())

    @property
    def block(self) -> str:
        """The block of settings that the stage uses."""
        return "pretrain" if self.name.startswith("pretrain") else "train"

    def _check(self) -> None:
        """Refuse settings that this stage would ignore."""
        if self.config.fgm_epsilon and type(self).gradients is not TrainingStage.gradients:
            raise self._cannot("fgm_epsilon", "it computes its own gradients")
        if self.config.fgm_epsilon and not any(p.requires_grad for p in self.model.encoder.word_parameters()):
            raise self._cannot("fgm_epsilon", "word vectors are frozen")
        if self.config.mention_replacement and not any(
            sampler.mention_replacement for sampler in self.samplers.values()
        ):
            raise self._cannot("mention_replacement", "it makes its own batches")

    def _cannot(self, setting: str, reason: str) -> ConfigError:
        return ConfigError(
            f"not supported in stage '{self.name}' of this method: {reason}",
            place=f"config.{self.block}.{setting}",
            expected="0",
            fix=f"omit {self.block}.{setting}",
        )

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        """The batches of one step."""
        return {name: sampler.batch(step, rank, world) for name, sampler in self.samplers.items()}

    def loss(self, batches: Mapping[str, Batch]) -> Tensor:
        return torch.stack([self.model(batch) for batch in batches.values()]).sum()

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        """Leave gradients in ``.grad`` (by ``backward(loss)`` or by hand) and return values for the log."""
        moves = AdversarialEmbeddings(self.model.encoder.word_parameters()) if self.config.fgm_epsilon else None
        loss = self.loss(batches)
        backward(loss)
        logged = {"loss": loss.detach()}
        if moves is not None:
            with moves.moved(self.config.fgm_epsilon):
                moved = self.loss(batches)
                backward(moved)
            logged["perturbed_loss"] = moved.detach()
        return logged

    def validate(self) -> float | None:
        """The score that selects the weights to keep, higher is better; None: keep the last."""
        if not self.dev:
            return None
        scores = [self._f1(key, gold) for key, gold in self.dev]
        return sum(scores) / len(scores)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint must hold beside weights and optimiser for the stage to go on from there."""
        return {}

    def restore_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`state` gave, before the first step."""

    def log_values(self, score: float | None) -> dict[str, float | None]:
        """The result of :meth:`validate` as log entries."""
        return {self.score_name: score}

    def note(self, best: float) -> str:
        """The best score so far, for the progress bar."""
        return f"best {self.score_name.replace('_f1', ' F1')} {100 * best:.2f}"

    def score_monitors(self) -> dict[str, float]:
        """F1 on the monitors, which do not influence training."""
        return {name: self._f1(key, gold) for name, (key, gold) in self.monitors.items()}

    def _f1(self, key: str, gold: Sequence[Sentence]) -> float:
        """Batches are cached: building them costs as much as tagging."""
        at = (key, id(gold))
        if at not in self._scored:
            self._scored[at] = list(self.model.batches(key, gold, self.config.eval_batch_size))
        return score(gold, self.model.predict_batches(gold, self._scored[at])).f1


class MixedStage(TrainingStage):
    """One sampler a step, in an order redrawn each epoch in which every sampler passes once over its sentences.

    With ``min_source_share`` a small sampler passes more often.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        least = math.ceil(self.config.min_source_share * max(sampler.per_epoch for sampler in self.samplers.values()))
        self._turns = {name: max(sampler.per_epoch, least) for name, sampler in self.samplers.items()}
        self.steps_per_epoch = sum(self._turns.values())
        self._epoch, self._order = -1, list[tuple[str, int]]()

    @property
    def sentences_per_update(self) -> int:
        return self.config.accumulate * min(sampler.batch_size for sampler in self.samplers.values())

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        epoch, at = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            turns = [(name, epoch * each + i) for name, each in self._turns.items() for i in range(each)]
            generator(self.seed, self.name, "turns", epoch).shuffle(turns)
            self._epoch, self._order = epoch, turns
        name, k = self._order[at]
        return {name: self.samplers[name].batch(k, rank, world)}


def joint_epoch(samplers: Mapping[str, BatchSampler]) -> int:
    """Steps in an epoch if each step takes one batch from every sampler: as many sentences as there are in all."""
    return math.ceil(sum(sampler.per_epoch for sampler in samplers.values()) / len(samplers))
