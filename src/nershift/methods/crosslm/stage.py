"""Algorithm 1: a batch of every task, each with the weights generated for it, and one update for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nershift.config import TrainConfig
from nershift.data.spans import Sentence
from nershift.methods.crosslm.generated import Place
from nershift.methods.crosslm.model import LM, NER, CrossLMModel
from nershift.methods.crosslm.sampled_softmax import language_model_losses
from nershift.model import Batch
from nershift.training.sampler import BatchSampler
from nershift.training.stage import Backward, TrainingStage


@dataclass(frozen=True)
class Task:
    """NER or language modelling in one domain, with its weight in eq. 9 and the sampler of its batches."""

    sampler: str
    domain: str
    kind: str
    weight: float

    @property
    def place(self) -> Place:
        return {"domain": self.domain, "task": self.kind}


class CrossLMStage(TrainingStage):
    """Joint training of all tasks.

    Args:
        selection: what model selection looks at: (domain, head key, sentences).
    """

    cuda_graph_safe = True
    model: CrossLMModel

    def __init__(
        self,
        model: CrossLMModel,
        config: TrainConfig,
        samplers: Mapping[str, BatchSampler],
        seed: int,
        tasks: Sequence[Task],
        selection: Sequence[tuple[str, str, Sequence[Sentence]]] = (),
    ) -> None:
        # An epoch is a pass over the labelled sentences; raw text may be of any length.
        counts = [samplers[t.sampler].per_epoch for t in tasks if t.kind == NER]
        super().__init__("train", model, config, samplers, seed, (), -(-sum(counts) // len(counts)))
        self.tasks = list(tasks)
        self.selection = [part for part in selection if part[2]]

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        weights = self.model.generator([task.place for task in self.tasks])  # lines 4, 7, 11, 15: eq. 2
        losses = self.losses(self.tasks, batches, weights)  # lines 5, 8, 12, 16
        total = torch.stack([t.weight * losses[t.sampler] for t in self.tasks]).sum()
        backward(total)  # eq. 9; its last term is the optimiser's weight decay
        return {"loss": total.detach()} | {sampler: loss.detach() for sampler, loss in losses.items()}

    def losses(
        self, tasks: Sequence[Task], batches: Mapping[str, Batch], weights: Sequence[Tensor]
    ) -> dict[str, Tensor]:
        """By sampler. What tasks share (words, characters, the softmax of the language models) runs once for all."""
        model, states = self.model, dict[str, Tensor]()
        features = model.embed([batches[t.sampler].inputs for t in tasks])  # eq. 1
        for task, x, own in zip(tasks, features, weights, strict=True):
            lengths = batches[task.sampler].inputs["lengths"]
            states[task.sampler] = model.encoder.dropout(model.generator.run(x, lengths, own))  # [B, L, 2H], eq. 3
        losses = {
            t.sampler: model.loss(batches[t.sampler], states[t.sampler])  # eqs. 4 and 7
            for t in tasks
            if t.kind == NER
        }
        reading = [t.sampler for t in tasks if t.kind == LM]
        if model.lm is not None and reading:
            parts = [(states[s], batches[s].inputs["words"], batches[s].inputs["mask"]) for s in reading]
            losses |= dict(zip(reading, language_model_losses(model.lm, parts), strict=True))  # eqs. 5, 6 and 8
        return {task.sampler: losses[task.sampler] for task in tasks}

    def validate(self) -> float | None:
        if not self.selection:
            return None
        scores = []
        for domain, key, gold in self.selection:
            self.model.use_weights_of(domain)
            scores.append(self._f1(key, gold))
        return sum(scores) / len(scores)
