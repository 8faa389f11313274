"""Training of tasks that share one generator of weights: CrossLM's Algorithm 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nershift.config import TrainConfig
from nershift.data.spans import Sentence
from nershift.eval.metrics import score
from nershift.nn.generated import LSTMGenerator, Place
from nershift.nn.model import Batch, TaggingModel
from nershift.nn.recurrent import RecurrentEncoder
from nershift.nn.sampled_softmax import SampledSoftmax, language_model_loss
from nershift.train.feed import Feed
from nershift.train.phase import Backward, Phase

NER, LM = "ner", "lm"


@dataclass(frozen=True)
class Task:
    """One of the tasks of a step: which feed, in which place, with which weight in eq. 9."""

    feed: str
    domain: str
    kind: str
    weight: float

    @property
    def place(self) -> Place:
        return {"domain": self.domain, "task": self.kind}


class CrossLMPhase(Phase):
    """Algorithm 1: a batch of every task, each with its generated weights, and one update for all.

    ``model.encoder.recurrent`` is not trained: it holds the weights of the domain that is being decoded.

    Args:
        selection: what model selection looks at: (domain, decoder key, sentences).
    """

    def __init__(
        self,
        model: TaggingModel,
        config: TrainConfig,
        feeds: Mapping[str, Feed],
        seed: int,
        tasks: Sequence[Task],
        selection: Sequence[tuple[str, str, Sequence[Sentence]]] = (),
    ) -> None:
        # An epoch is as many labelled sentences as there are; raw text may be of any length.
        counts = [feeds[t.feed].per_epoch for t in tasks if t.kind == NER]
        super().__init__("train", model, config, feeds, seed, (), -(-sum(counts) // len(counts)))
        self.tasks = list(tasks)
        self.selection = [part for part in selection if part[2]]

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        weights = self.generator([task.place for task in self.tasks])
        losses = [self.task_loss(t, batches[t.feed], w) for t, w in zip(self.tasks, weights, strict=True)]
        total = torch.stack([t.weight * loss for t, loss in zip(self.tasks, losses, strict=True)]).sum()
        backward(total)  # eq. 9; its last term is the optimiser's weight decay
        return {"loss": total.detach()} | {
            task.feed: loss.detach() for task, loss in zip(self.tasks, losses, strict=True)
        }

    @property
    def generator(self) -> LSTMGenerator:
        found = self.model.extras["generator"]
        assert isinstance(found, LSTMGenerator)
        return found

    def task_loss(self, task: Task, batch: Batch, weights: Tensor) -> Tensor:
        encoder, inputs = self.model.encoder, batch.inputs
        assert isinstance(encoder, RecurrentEncoder)
        x = encoder.embed(inputs["rows"], inputs["chars"], inputs["where"])  # [B, L, F], eq. 1
        states = encoder.dropout(self.generator.run(x, inputs["lengths"], weights))  # [B, L, 2H], eq. 3
        if task.kind == NER:
            return self.model.loss(batch, states)  # eqs. 4 and 7
        head = self.model.extras["lm"]
        assert isinstance(head, SampledSoftmax)
        return language_model_loss(head, states, inputs["words"], inputs["mask"])

    def validate(self) -> float | None:
        if not self.selection:
            return None
        found = []
        for domain, key, gold in self.selection:
            settle(self.model, domain)
            found.append(score(gold, self.model.predict(key, gold, self.config.eval_batch_size)).f1)
        return sum(found) / len(found)


def settle(model: TaggingModel, domain: str) -> None:
    """Give the encoder's own LSTM the weights with which a domain's entities are decoded."""
    generator, encoder = model.extras["generator"], model.encoder
    assert isinstance(generator, LSTMGenerator)
    assert isinstance(encoder, RecurrentEncoder)
    generator.write(encoder.recurrent, {"domain": domain, "task": NER})
