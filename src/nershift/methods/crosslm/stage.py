"""Training of tasks that share one generator of weights: CrossLM's Algorithm 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn.functional import pad

from nershift.config import TrainConfig
from nershift.data.spans import Sentence
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.methods.crosslm.generated import LSTMGenerator, Place
from nershift.methods.crosslm.sampled_softmax import SampledSoftmax, language_model_losses
from nershift.model import Batch, TaggingModel
from nershift.training.sampler import BatchSampler
from nershift.training.stage import Backward, TrainingStage

NER, LM = "ner", "lm"


@dataclass(frozen=True)
class Task:
    """One of the tasks of a step: which sampler, in which place, with which weight in eq. 9."""

    sampler: str
    domain: str
    kind: str
    weight: float

    @property
    def place(self) -> Place:
        return {"domain": self.domain, "task": self.kind}


class CrossLMStage(TrainingStage):
    """Algorithm 1: a batch of every task, each with its generated weights, and one update for all.

    ``model.encoder.recurrent`` is not trained: it holds the weights of the domain that is being decoded.

    Args:
        selection: what model selection looks at: (domain, head key, sentences).
    """

    recordable = True

    def __init__(
        self,
        model: TaggingModel,
        config: TrainConfig,
        samplers: Mapping[str, BatchSampler],
        seed: int,
        tasks: Sequence[Task],
        selection: Sequence[tuple[str, str, Sequence[Sentence]]] = (),
    ) -> None:
        # An epoch is as many labelled sentences as there are; raw text may be of any length.
        counts = [samplers[t.sampler].per_epoch for t in tasks if t.kind == NER]
        super().__init__("train", model, config, samplers, seed, (), -(-sum(counts) // len(counts)))
        self.tasks = list(tasks)
        self.selection = [part for part in selection if part[2]]

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        weights = self.generator([task.place for task in self.tasks])
        losses = self.losses(self.tasks, batches, weights)
        total = torch.stack([t.weight * losses[t.sampler] for t in self.tasks]).sum()
        backward(total)  # eq. 9; its last term is the optimiser's weight decay
        return {"loss": total.detach()} | {sampler: loss.detach() for sampler, loss in losses.items()}

    @property
    def generator(self) -> LSTMGenerator:
        found = self.model.extras["generator"]
        assert isinstance(found, LSTMGenerator)
        return found

    def losses(
        self, tasks: Sequence[Task], batches: Mapping[str, Batch], weights: Sequence[Tensor]
    ) -> dict[str, Tensor]:
        """By sampler. What the tasks share, words and characters and the language models' output, runs once for all."""
        encoder = self.model.encoder
        assert isinstance(encoder, RecurrentEncoder)
        states = {}
        features = embed_together(encoder, [batches[t.sampler].inputs for t in tasks])  # eq. 1
        for task, x, made in zip(tasks, features, weights, strict=True):
            lengths = batches[task.sampler].inputs["lengths"]
            states[task.sampler] = encoder.dropout(self.generator.run(x, lengths, made))  # [B, L, 2H], eq. 3
        found = {t.sampler: self.model.loss(batches[t.sampler], states[t.sampler]) for t in tasks if t.kind == NER}
        reading = [t.sampler for t in tasks if t.kind == LM]
        if reading:
            head = self.model.extras["lm"]
            assert isinstance(head, SampledSoftmax)
            parts = [
                (states[sampler], batches[sampler].inputs["words"], batches[sampler].inputs["mask"])
                for sampler in reading
            ]
            found |= dict(zip(reading, language_model_losses(head, parts), strict=True))
        return {task.sampler: found[task.sampler] for task in tasks}  # eqs. 4 and 7, or 8

    def validate(self) -> float | None:
        if not self.selection:
            return None
        found = []
        for domain, key, gold in self.selection:
            settle(self.model, domain)
            found.append(self._f1(key, gold))
        return sum(found) / len(found)


def embed_together(encoder: RecurrentEncoder, inputs: Sequence[Mapping[str, Tensor]]) -> list[Tensor]:
    """Features ``[B, L, F]`` of each batch, from one pass over the distinct words of all of them."""
    longest = max(part["chars"].shape[1] for part in inputs)
    chars = [pad(part["chars"], (0, longest - part["chars"].shape[1])) for part in inputs]
    first = list(accumulate([len(part["rows"]) for part in inputs], initial=0))
    where = [(part["where"] + at).flatten() for part, at in zip(inputs, first, strict=False)]
    x = encoder.embed(torch.cat([part["rows"] for part in inputs]), torch.cat(chars), torch.cat(where))
    parts = x.split([len(w) for w in where])  # [B · L, F] each
    return [own.view(*part["where"].shape, -1) for own, part in zip(parts, inputs, strict=True)]


def settle(model: TaggingModel, domain: str) -> None:
    """Give the encoder's own LSTM the weights with which a domain's entities are decoded."""
    generator, encoder = model.extras["generator"], model.encoder
    assert isinstance(generator, LSTMGenerator)
    assert isinstance(encoder, RecurrentEncoder)
    generator.write(encoder.recurrent, {"domain": domain, "task": NER})
