"""Meta-training (Algorithm 1, lines 1-13): each sentence is the query of a task whose supports are its neighbours."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from nershift.config import TrainConfig
from nershift.data.spans import Sentence
from nershift.errors import ConfigError
from nershift.methods.metacross.batched_adaptation.layout import Layout
from nershift.methods.metacross.batched_adaptation.memory import is_out_of_memory, task_bytes
from nershift.methods.metacross.batched_adaptation.per_task_update import PerTaskUpdate, uncovered
from nershift.methods.metacross.inner_update import StepRule, inner_update, trained_parameters
from nershift.methods.metacross.options import MetaCrossOptions
from nershift.methods.metacross.task_sampler import TaskBatch, TaskSampler
from nershift.methods.metacross.token_classifier import sentence_losses
from nershift.model import Batch, TaggingModel
from nershift.training.optim import rate_factor
from nershift.training.stage import Backward, TrainingStage

log = logging.getLogger(__name__)
Group = tuple[TaskBatch, TaskBatch]  # queries and supports of some tasks


class PseudoTaskStage(TrainingStage):
    """Each task takes n steps from the shared weights; then the gradient of its query there (eqs. 7-12)."""

    def __init__(
        self,
        model: TaggingModel,
        config: TrainConfig,
        sampler: TaskSampler,
        seed: int,
        dev: Sequence[tuple[str, Sequence[Sentence]]],
        options: MetaCrossOptions,
    ) -> None:
        super().__init__("pretrain", model, config, {"tasks": sampler}, seed, dev)
        self.sampler, self.options = sampler, options
        self.rule = options.step_rule(options.inner_lr)
        self._uncovered = bool(uncovered(model))
        self._most = config.batch_size  # tasks at once; fewer after memory was short

    @property
    def batched(self) -> bool:
        """Do tasks run together? For Adam, whose changes are formed task by task, that pays on a GPU only."""
        if self.options.batched == "auto":
            return not self._uncovered and (self.rule.low_rank or self.model.device.type != "cpu")
        return self.options.batched == "always"

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        """Groups of tasks that fit into memory, each as a batch of queries and one of supports (line 5)."""
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
            # Later steps and the query hold as much for their backward passes as the first step does.
            each = (1 + self.options.inner_steps) * task_bytes(self.model, self.rule, longest, self.config.precision)
            size = max(1, min(self._most, int(self.options.memory * 2**30 / each)))
        for start in range(0, len(tasks), size):
            yield tasks[start : start + size]

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        groups: list[Any] = [(batches[f"query {n}"], batches[f"support {n}"]) for n in range(len(batches) // 2)]
        losses = self._many_at_once(groups) if self.batched else self._one_by_one(groups)
        return {"loss": torch.stack(losses).sum() / sum(len(query) for query, _ in groups)}

    def _one_by_one(self, groups: Sequence[Group]) -> list[Tensor]:
        """The plain version: lines 6-9 as the paper prints them."""
        parameters, share = trained_parameters(self.model), self._share(groups)
        totals = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        losses, weight = [], self.options.max_weight
        for query, support in groups:
            with inner_update(self.model, self._rule(query), self.options.inner_steps, support, weight):  # eq. 7
                loss = sentence_losses(self.model, query, weight).sum()
                grads = torch.autograd.grad(loss, parameters, allow_unused=True)  # eq. 12
            for total, grad in zip(totals, grads, strict=True):
                if grad is not None:
                    total.add_(grad, alpha=share)  # eq. 10
            losses.append(loss.detach())
        for p, total in zip(parameters, totals, strict=True):
            p.grad = total
        return losses

    def _many_at_once(self, groups: Sequence[Group]) -> list[Tensor]:
        """The same gradients, a group of tasks at a time; a group that does not fit into memory is cut in two."""
        parameters, share = trained_parameters(self.model), self._share(groups)
        waiting, losses = list(groups), list[Tensor]()
        while waiting:
            query, support = waiting.pop(0)
            grads = None
            try:
                loss = self._queries_after_steps(query, support)
                grads = torch.autograd.grad(share * loss, parameters, allow_unused=True)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
            if grads is None:  # out here, because the except block would hold on to what the failed attempt took
                waiting = [*self._halves(query), *waiting]
                continue
            for p, grad in zip(parameters, grads, strict=True):
                if grad is not None:
                    p.grad = grad if p.grad is None else p.grad + grad
            losses.append(loss.detach())
            del loss  # and its graph, before the next group makes its own
        return losses

    def _queries_after_steps(self, query: TaskBatch, support: TaskBatch) -> Tensor:
        """The sum of the queries' losses, each with the weights of its task (eq. 9)."""
        model, weight, device = self.model, self.options.max_weight, self.model.device
        each = len(support) // len(query)
        members = [range(t * each, (t + 1) * each) for t in range(len(query))]
        rows = Layout(support.windows, members, device)
        with PerTaskUpdate(model, self._rule(query)) as update:
            for _ in range(self.options.inner_steps):
                update.step(lambda: sentence_losses(model, support, weight).sum(), rows)
            with update.applied(Layout.one_each(query.windows, device)):
                return sentence_losses(model, query, weight).sum()

    def _halves(self, query: TaskBatch) -> list[Group]:
        """The same tasks in two groups; later groups are smaller, too."""
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

    def _rule(self, batch: TaskBatch) -> StepRule:
        """The inner step, with α at its place in the schedule."""
        if not self.options.inner_schedule:
            return self.rule
        step = batch.number // self.config.accumulate
        factor = rate_factor(self.config, step, self.budget)
        return dataclasses.replace(self.rule, rate=self.rule.rate * factor)

    def _share(self, groups: Sequence[Group]) -> float:
        """The factor of each query's gradient. Eq. 10 sums over tasks, but processes average their gradients."""
        return groups[0][0].whole / sum(len(query) for query, _ in groups) / self.config.accumulate
