"""Meta-training on pseudo tasks: every sentence is the query of a task whose supports are its nearest neighbours."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from nershift.errors import ConfigError
from nershift.methods.metacross.batched_adaptation.adapter import (
    is_out_of_memory,
    sentence_losses,
    stepped,
    task_bytes,
    trained,
)
from nershift.methods.metacross.batched_adaptation.layout import Layout
from nershift.methods.metacross.batched_adaptation.step_rule import StepRule
from nershift.methods.metacross.batched_adaptation.tasks import PerTaskUpdate, uncovered
from nershift.methods.metacross.task_sampler import TaskBatch, TaskSampler
from nershift.model import Batch
from nershift.training.optim import rate_factor
from nershift.training.stage import Backward, TrainingStage

log = logging.getLogger(__name__)
Batched = Literal["auto", "always", "never"]
Group = tuple[TaskBatch, TaskBatch]  # queries and supports of some tasks


@dataclass(frozen=True)
class TaskSettings:
    rule: StepRule
    steps: int  # n
    weight: float  # λ
    scheduled: bool
    batched: Batched
    memory: float  # GiB


class PseudoTaskStage(TrainingStage):
    """Algorithm 1: n steps for each task from the shared weights, then the gradient of its query (eqs. 7-12)."""

    def __init__(self, *args: Any, settings: TaskSettings, **more: Any) -> None:
        super().__init__(*args, **more)
        self.settings = settings
        self._odd = bool(uncovered(self.model))
        self._most = self.config.batch_size  # tasks at once; fewer when memory turned out to be short
        sampler = self.samplers["tasks"]
        assert isinstance(sampler, TaskSampler)
        self.sampler = sampler

    @property
    def batched(self) -> bool:
        """Whether tasks run together. Forming Adam's changes task by task pays on a GPU, not on a CPU."""
        if self.settings.batched == "auto":
            return not self._odd and (self.settings.rule.low_rank or self.model.device.type != "cpu")
        return self.settings.batched == "always"

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        """Groups of tasks that fit into memory, as a batch of queries and one of supports each."""
        chosen = self.sampler.indices(step)
        mine = chosen[rank::world] if world > 1 and len(chosen) >= world else chosen
        out: dict[str, Batch] = {}
        for number, tasks in enumerate(self._groups(mine)):
            query, support = self.sampler.part(step, tasks, len(chosen))
            out |= {f"query {number}": query, f"support {number}": support}
        return out

    def _groups(self, tasks: Sequence[int]) -> Iterator[Sequence[int]]:
        size = 1
        if self.batched:
            longest = max(self.sampler.positions(i) for i in tasks)
            # What later steps and the query keep for their backward passes comes on top of the first step's.
            each = (1 + self.settings.steps) * task_bytes(
                self.model, self.settings.rule, longest, self.config.precision
            )
            size = max(1, min(self._most, int(self.settings.memory * 2**30 / each)))
        for start in range(0, len(tasks), size):
            yield tasks[start : start + size]

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        groups: list[Any] = [(batches[f"query {n}"], batches[f"support {n}"]) for n in range(len(batches) // 2)]
        mine = sum(len(query) for query, _ in groups)
        losses = self._together(groups) if self.batched else self._one_by_one(groups)
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

    def _share(self, groups: Sequence[Group]) -> float:
        """What a query's loss counts for: gradients are averaged over processes, and here they are summed."""
        return groups[0][0].whole / sum(len(query) for query, _ in groups) / self.config.accumulate

    def _together(self, groups: Sequence[Group]) -> list[Tensor]:
        parameters, share = trained(self.model), self._share(groups)
        waiting, losses = list(groups), list[Tensor]()
        while waiting:
            query, support = waiting.pop(0)
            found = None
            try:
                loss = self._queries_after_steps(query, support)
                found = torch.autograd.grad(share * loss, parameters, allow_unused=True)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
            if found is None:  # by now what the failed attempt held is free
                waiting = [*self._halves(query), *waiting]
                continue
            for p, grad in zip(parameters, found, strict=True):
                if grad is not None:
                    p.grad = grad if p.grad is None else p.grad + grad
            losses.append(loss.detach())
            del loss  # and with it the graph, before the next group makes its own
        return losses

    def _queries_after_steps(self, query: TaskBatch, support: TaskBatch) -> Tensor:
        """The sum of the queries' losses, each by the weights of its task."""
        model, weight, device = self.model, self.settings.weight, self.model.device
        each = len(support) // len(query)
        members = [range(t * each, (t + 1) * each) for t in range(len(query))]
        layout = Layout(support.windows, members, device)
        with PerTaskUpdate(model, self._rule(query)) as ghost:
            for _ in range(self.settings.steps):
                ghost.step(lambda: sentence_losses(model, support, weight).sum(), layout)
            with ghost.reading(Layout(query.windows, [[t] for t in range(len(query))], device)):
                return sentence_losses(model, query, weight).sum()

    def _halves(self, query: TaskBatch) -> list[Group]:
        """Memory is short: the same tasks in two groups, and smaller groups from now on."""
        tasks = query.tasks
        if len(tasks) == 1:
            raise ConfigError(
                "the steps of one task do not fit into memory",
                place="options.memory",
                fix="use a smaller encoder, shorter windows (encoder.transformer.max_subwords) or fewer neighbours",
            )
        self._most = len(tasks) // 2
        log.warning("memory is short: %d tasks at once from now on", self._most)
        cut = -(-len(tasks) // 2)
        return [self.sampler.part(query.number, part, query.whole) for part in (tasks[:cut], tasks[cut:])]

    def _one_by_one(self, groups: Sequence[Group]) -> list[Tensor]:
        parameters, share = trained(self.model), self._share(groups)
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
