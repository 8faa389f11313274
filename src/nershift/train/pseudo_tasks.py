"""Meta-training on pseudo tasks: every sentence is the query of a task whose supports are its nearest neighbours."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from nershift.data.spans import Sentence
from nershift.nn.adapt import sentence_losses, stepped, task_bytes, trained, windows
from nershift.nn.ghost import Ghost, uncovered
from nershift.nn.ghost_layout import Layout
from nershift.nn.model import Batch
from nershift.nn.step_rule import StepRule
from nershift.nn.support import Support
from nershift.nn.transformer import Pieces, TransformerEncoder
from nershift.tasks.retrieval import distinct
from nershift.train.feed import Feed
from nershift.train.optim import rate_factor
from nershift.train.phase import Backward, Phase
from nershift.train.seeding import generator

Mask = Literal["word", "first"]
Batched = Literal["auto", "always", "never"]


@dataclass(frozen=True)
class TaskSettings:
    rule: StepRule
    steps: int  # n
    weight: float  # λ
    scheduled: bool
    mask_rate: float
    mask: Mask
    mask_support: bool
    batched: Batched
    memory: float  # GiB


@dataclass
class TaskBatch(Batch):
    """Queries of some tasks, or their supports, task after task."""

    windows: Sequence[int] = ()
    number: int = 0  # of the batch
    tasks: int = 0  # of the whole batch, other groups and processes included


class TaskFeed(Feed):
    """Batches of tasks.

    Args:
        support: makes the index, when the model is where it computes.
    """

    def __init__(self, *args: Any, support: Callable[[], Support]) -> None:
        super().__init__(*args)
        self._make = support
        self._of_text = distinct(s.tokens for s in self.sentences)[1]
        self._epoch_masked, self._masked = -1, dict[tuple[str, int], Pieces]()

    @cached_property
    def support(self) -> Support:
        return self._make()

    @cached_property
    def _neighbours(self) -> list[list[int]]:
        return self.support.tasks()

    def neighbours(self, i: int) -> list[int]:
        """Numbers, in the support, of the sentences that serve sentence ``i``."""
        return self._neighbours[self._of_text[i]]

    def sentence(self, kind: str, i: int) -> Sentence:
        return self.sentences[i] if kind == "query" else self.support.sentences[i]

    def masked(self, epoch: int, kind: str, i: int, rate: float, mask: Mask) -> Pieces:
        """Features of a sentence in which tokens of entities are hidden at random, anew each epoch."""
        if epoch != self._epoch_masked:
            self._epoch_masked, self._masked = epoch, {}
        if (kind, i) not in self._masked:
            sentence, rng = self.sentence(kind, i), generator(self.seed, "mask", epoch, kind, i)
            inside = [at for span in sentence.spans for at in range(span.start, span.end)]
            hidden = {at for at in inside if rng.random() < rate}
            encoder = self.model.encoder
            assert isinstance(encoder, TransformerEncoder)
            self._masked[kind, i] = encoder.prepare(sentence.tokens, hidden, mask == "word")
        return self._masked[kind, i]


class PseudoTaskPhase(Phase):
    """Algorithm 1: n steps for each task from the shared weights, then the gradient of its query (eqs. 7-12)."""

    def __init__(self, *args: Any, settings: TaskSettings, **more: Any) -> None:
        super().__init__(*args, **more)
        self.settings = settings
        self._odd = bool(uncovered(self.model))
        feed = self.feeds["tasks"]
        assert isinstance(feed, TaskFeed)
        self.feed = feed

    @property
    def batched(self) -> bool:
        """Whether tasks run together. Forming Adam's changes task by task pays on a GPU, not on a CPU."""
        if self.settings.batched == "auto":
            return not self._odd and (self.settings.rule.low_rank or self.model.device.type != "cpu")
        return self.settings.batched == "always"

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        """Groups of tasks that fit into memory, as a batch of queries and one of supports each."""
        chosen = self.feed.indices(step)
        mine = chosen[rank::world] if world > 1 and len(chosen) >= world else chosen
        epoch = step // self.feed.per_epoch
        out: dict[str, Batch] = {}
        for number, group in enumerate(self._groups(mine, epoch)):
            members = {"query": list(group), "support": [j for i in group for j in self.feed.neighbours(i)]}
            for kind, rows in members.items():
                sentences = [self.feed.sentence(kind, i) for i in rows]
                ready = [self._ready(epoch, kind, i) for i in rows]
                tags = [self.model.encode_tags(self.feed.key, s) for s in sentences]
                made = vars(self.model.batch(self.feed.key, sentences, ready, tags))
                out[f"{kind} {number}"] = TaskBatch(
                    **made, windows=windows(ready), number=step, tasks=len(chosen)
                )
        return out

    def _ready(self, epoch: int, kind: str, i: int) -> Pieces:
        settings = self.settings
        rate = settings.mask_rate if kind == "query" or settings.mask_support else 0.0
        return self.feed.masked(epoch, kind, i, rate, settings.mask)

    def _groups(self, tasks: Sequence[int], epoch: int) -> Iterator[Sequence[int]]:
        size = 1
        if self.batched:
            pieces = [
                sum(len(w) for j in self.feed.neighbours(i) for w in self._ready(epoch, "support", j).ids)
                for i in tasks
            ]
            # What later steps and the query keep for their backward passes comes on top of the first step's.
            each = (1 + self.settings.steps) * task_bytes(self.model, self.settings.rule, max(pieces))
            size = max(1, int(self.settings.memory * 2**30 / each))
        for start in range(0, len(tasks), size):
            yield tasks[start : start + size]

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        groups = [(batches[f"query {n}"], batches[f"support {n}"]) for n in range(len(batches) // 2)]
        mine = sum(len(query) for query, _ in groups)
        run = self._together if self.batched else self._one_by_one
        losses = run(groups, backward)  # type: ignore[arg-type]
        return {"loss": torch.stack(losses).sum() / mine}

    def _rule(self, batch: TaskBatch) -> StepRule:
        rule = self.settings.rule
        if not self.settings.scheduled:
            return rule
        total = self.config.epochs * self.steps_per_epoch
        total = min(total, self.config.max_steps) if self.config.max_steps else total
        step = batch.number // self.config.accumulate
        factor = rate_factor(self.config, step, self.steps_per_epoch, total)
        return dataclasses.replace(rule, rate=rule.rate * factor)

    def _together(self, groups: Sequence[tuple[TaskBatch, TaskBatch]], backward: Backward) -> list[Tensor]:
        model, weight, device = self.model, self.settings.weight, self.model.device
        share = groups[0][0].tasks / sum(len(query) for query, _ in groups)
        losses = []
        for query, support in groups:
            each = len(support) // len(query)
            members = [range(t * each, (t + 1) * each) for t in range(len(query))]
            layout = Layout(support.windows, members, device)
            with Ghost(model, self._rule(query)) as ghost:
                for _ in range(self.settings.steps):
                    ghost.step(lambda s=support: sentence_losses(model, s, weight).sum(), layout)  # type: ignore[misc]
                with ghost.reading(Layout(query.windows, [[t] for t in range(len(query))], device)):
                    loss = sentence_losses(model, query, weight).sum()
            backward(share * loss)
            losses.append(loss.detach())
        return losses

    def _one_by_one(self, groups: Sequence[tuple[TaskBatch, TaskBatch]], backward: Backward) -> list[Tensor]:
        parameters = trained(self.model)
        share = groups[0][0].tasks / len(groups) / self.config.accumulate
        totals = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        losses = []
        for query, support in groups:
            with stepped(self.model, self._rule(query), self.settings.steps, support, self.settings.weight):
                loss = sentence_losses(self.model, query, self.settings.weight).sum()
                grads = torch.autograd.grad(loss, parameters, allow_unused=True)
            for total, grad in zip(totals, grads, strict=True):
                if grad is not None:
                    total.add_(grad, alpha=share)
            losses.append(loss.detach())
        for p, total in zip(parameters, totals, strict=True):
            p.grad = total
        return losses
