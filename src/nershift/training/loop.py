"""The one training loop. It owns the optimiser, precision, processes, model selection, checkpoints and resuming."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nershift.config import TrainConfig
from nershift.errors import CheckpointError, Interrupted, NershiftError
from nershift.model import Batch
from nershift.storage import load_tensors, save_tensors
from nershift.training.budget import Budget
from nershift.training.cuda_graphs import GraphRunner, can_be_recorded
from nershift.training.logger import TrainLogger
from nershift.training.optim import make_optimizer, optimizer_tensors, rate_factor, restore_optimizer, set_rate
from nershift.training.processes import Processes
from nershift.training.seeding import seed_torch
from nershift.training.stage import TrainingStage


class Diverged(NershiftError):
    """Losses or weights are infinite or not numbers; the step is not saved."""


_SMALL_CHECKPOINT = 512 * 2**20  # bytes
Compute = Callable[[Sequence[Mapping[str, Batch]]], list[dict[str, Tensor]]]  # one step, and what it logs


@dataclass
class Progress:
    """How far a stage has come: what a checkpoint holds beside weights and optimiser state."""

    step: int = 0
    best: float | None = None
    best_step: int = 0
    best_file: str = ""
    stale: int = 0  # evaluations since the best score
    averaged: int = 0  # states of the weights in the average of the last ones
    averaged_since: int = 0
    sums: dict[str, float] = field(default_factory=dict)  # of logged values since the last evaluation
    lines: int = 0  # of log.jsonl
    finished: bool = False


class Loop:
    """Runs one stage in a folder, from its checkpoint if there is one.

    After :meth:`run` the model holds the selected weights, and ``<folder>/<stage>.safetensors`` does too.

    Args:
        keep_last: keep the last checkpoint beside the result if it is small or the last weights were the best, so that
            training can go on from there.
        total: updates, where it is to go on for longer than the settings say.
    """

    def __init__(
        self,
        stage: TrainingStage,
        folder: Path,
        processes: Processes,
        logger: TrainLogger,
        *,
        keep_last: bool = False,
        total: int = 0,
    ) -> None:
        self.stage, self.folder, self.processes, self.logger = stage, folder, processes, logger
        self.config = stage.config
        self.progress = Progress(lines=logger.lines)
        self.result_path = folder / f"{stage.name}.safetensors"
        self.checkpoint_path = folder / f"{stage.name}.checkpoint.safetensors"
        self.best: dict[str, Tensor] | None = None
        self._best_written = 0
        self._sums: dict[str, Tensor] = {}
        self.keep_last, self.total = keep_last, total
        self._ended = 0  # the update after which a result was written that training goes on from
        self.budget = replace(stage.budget, total=total) if total else stage.budget
        self.average = LastAverage(self.config, self.budget)

    def run(self) -> Progress:
        if self.result_path.exists() and self._take_result():
            return self.progress
        recorded = self._recorded()
        self.optimizer = make_optimizer(self.config, self.stage.model, recorded)
        self._resume()
        plain: AbstractContextManager[Compute] = nullcontext(self._compute)
        with GraphRunner(self.stage, self._compute).recording() if recorded else plain as compute:
            self._train(compute)
        self._finish()
        del self.optimizer  # its state takes much of a GPU's memory
        return self.progress

    def _take_result(self) -> bool:
        """Load the result; False if training is to go on from the checkpoint beside it."""
        tensors, meta = load_tensors(self.result_path)
        restore(self.stage.model, tensors, str(self.result_path))
        self.progress = Progress(**meta)
        self.logger.lines = self.progress.lines
        if self.progress.step >= self.total or not self.checkpoint_path.exists():
            return True
        self._ended = self.progress.step
        if self.progress.best is not None:
            self.best = {k: v.clone() for k, v in trainable(self.stage.model).items()}
        return False

    def _recorded(self) -> bool:
        """Whether steps are recorded as CUDA graphs: one process, one GPU, and parts that allow it."""
        on_one_gpu = self.processes.world == 1 and self.processes.device.type == "cuda"
        return self.config.cuda_graphs and on_one_gpu and can_be_recorded(self.stage)

    def _train(self, compute: Compute) -> None:
        total = self.budget.total
        self.logger.bar.begin(self.stage.name, self.progress.step, total)
        written = time.monotonic()
        while self.progress.step < total and not self.budget.exhausted(self.config, self.progress.stale):
            self._step(self.progress.step, compute)
            self.progress.step += 1
            self.average.add(self.progress.step, self.stage.model)
            if self.budget.due(self.progress.step):
                self._evaluate()
            self.logger.bar.show(self.progress.step, self._note())
            every = self.config.checkpoint_steps
            due = time.monotonic() - written > self.config.checkpoint_seconds
            stop, due = self.processes.any_of(self.processes.stop_asked(), due)
            if stop or due or (every and self.progress.step % every == 0):
                self._save()
                written = time.monotonic()
            if stop:
                raise Interrupted(
                    f"stopped in stage '{self.stage.name}' after update {self.progress.step} of {total}",
                    fix="run the same command again (without --overwrite) to go on from there",
                )
        self.logger.bar.end()

    def _note(self) -> str:
        return self.stage.note(self.progress.best) if self.progress.best is not None else ""

    def _step(self, step: int, compute: Compute) -> None:
        stage, accumulate = self.stage, self.config.accumulate
        stage.model.train()
        seed_torch(stage.seed, stage.name, step, self.processes.rank)
        set_rate(self.optimizer, rate_factor(self.config, step, self.budget))
        self.optimizer.zero_grad(set_to_none=True)
        draws = range(step * accumulate, (step + 1) * accumulate)
        parts = [stage.draw(k, self.processes.rank, self.processes.world) for k in draws]
        for logged in compute(parts):
            self._log(logged)

    def _compute(self, parts: Sequence[Mapping[str, Batch]]) -> list[dict[str, Tensor]]:
        """From batches to updated weights. It reads no value back from the GPU, so that it can be recorded."""
        logged = []
        for batches in parts:
            with self._autocast():
                logged.append(self.stage.gradients(batches, self._backward))
        self._update(sum(len(batch) for batches in parts for batch in batches.values()))
        return logged

    def _log(self, logged: Mapping[str, Tensor]) -> None:
        for name, value in logged.items():
            value = value.detach().float() / self.config.accumulate
            self._sums[name] = self._sums[name] + value if name in self._sums else value

    def _update(self, sentences: int) -> None:
        parameters = [p for p in self.stage.model.parameters() if p.grad is not None]
        self.processes.average_gradients(parameters, sentences)
        if self.config.clip:
            torch.nn.utils.clip_grad_norm_(parameters, self.config.clip)
        self.optimizer.step()

    def _backward(self, loss: Tensor) -> None:
        # Backward runs in the precision of the forward pass: parts computed in fp32 stay in fp32.
        with torch.autocast(loss.device.type, enabled=False):
            (loss / self.config.accumulate).backward()

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.config.precision == "bf16":
            return torch.autocast(self.stage.model.device.type, torch.bfloat16)
        return nullcontext()

    def _evaluate(self) -> None:
        """Score the weights, keep them if they are the best so far, and log what happened since the last time."""
        p = self.progress
        steps = self.budget.since_last(p.step)
        sums = self._finite_sums()
        score = self.score()
        # At a score of 0 nothing is learned yet: later weights are the better guess, and patience does not count.
        if score is not None and (not p.best or score > p.best):
            p.best, p.best_step, p.stale = score, p.step, 0
            self.best = {k: v.clone() for k, v in trainable(self.stage.model).items()}
        elif score is not None:
            p.stale += 1
        entry: dict[str, Any] = {"phase": self.stage.name, "step": p.step}
        entry["epoch"] = self.budget.epoch(p.step)
        entry |= {k: v / steps for k, v in sums.items()} | self.stage.log_values(score) | self.stage.score_monitors()
        self.logger.write(entry, p.step)
        self._sums = {}
        p.lines = self.logger.lines

    def score(self) -> float | None:
        """The selection score of the current weights."""
        with self._autocast():
            return self.stage.validate()

    def _finite_sums(self) -> dict[str, float]:
        """Sums of logged values since the last evaluation. Only read where the loop waits for the GPU anyway."""
        sums = {name: float(value) for name, value in self._sums.items()}
        odd = [f"{name} is {value}" for name, value in sums.items() if not math.isfinite(value)]
        weights = [p.detach().isfinite().all() for p in self.stage.model.parameters() if p.requires_grad]
        if not odd and weights and not torch.stack(weights).all():
            odd = ["weights are infinite or not numbers"]
        if self.processes.any_of(bool(odd))[0]:
            part = self.stage.block
            clip = f"{self.config.clip:g}" if self.config.clip else "off"
            raise Diverged(
                f"training diverged: {odd[0] if odd else 'in another process'} at step {self.progress.step} "
                f"of {self.budget.total} (learning rate {self.config.lr:g}, clip {clip})",
                place=f"stage '{self.stage.name}'",
                expected="finite losses and weights",
                fix=f"a lower rate (--set {part}.lr={self.config.lr / 10:g}) or tighter clipping "
                f"(--set {part}.clip=1), with --overwrite",
            )
        return sums

    def _save(self) -> None:
        """Best weights first, then the checkpoint that names them, then the older best is removed."""
        p = self.progress
        p.sums = self._finite_sums()
        if self.processes.main:
            if self.best is not None and self._best_written != p.best_step:
                p.best_file = f"{self.stage.name}.best-{p.best_step}.safetensors"
                save_tensors(self.folder / p.best_file, self.best, {})
                self._best_written = p.best_step
            tensors = {f"model/{k}": v for k, v in trainable(self.stage.model).items()}
            tensors |= {f"optimizer/{k}": v for k, v in optimizer_tensors(self.optimizer).items()}
            tensors |= {f"average/{k}": v for k, v in self.average.mean.items()}
            tensors |= {f"stage/{k}": v for k, v in self.stage.state().items()}
            p.averaged, p.averaged_since = self.average.count, self.average.since
            save_tensors(self.checkpoint_path, tensors, vars(p))
            self._sweep(p.best_file)
        self.processes.wait()

    def _sweep(self, keep: str) -> None:
        for old in self.folder.glob(f"{self.stage.name}.best-*.safetensors"):
            if old.name != keep:
                old.unlink()

    def _resume(self) -> None:
        if not self.checkpoint_path.exists():
            self.logger.rewind(self.progress.lines)
            return
        tensors, meta = load_tensors(self.checkpoint_path)
        part = {
            kind: {k.removeprefix(kind): v for k, v in tensors.items() if k.startswith(kind)}
            for kind in ("model/", "optimizer/", "average/", "stage/")
        }
        restore(self.stage.model, part["model/"], str(self.checkpoint_path))
        restore_optimizer(self.optimizer, part["optimizer/"])
        self.progress = Progress(**meta)
        device = self.stage.model.device
        self.stage.restore_state({k: v.to(device) for k, v in part["stage/"].items()})
        if self.progress.averaged_since == self.average.since:  # else it begins anew, for a longer training
            self.average.restore(self.progress.averaged, {k: v.to(device) for k, v in part["average/"].items()})
        self._sums = {name: torch.tensor(value, device=device) for name, value in self.progress.sums.items()}
        if self.progress.step == self._ended:
            self.progress.stale = 0  # patience begins anew
        if self.progress.best_file and (self.folder / self.progress.best_file).exists():  # else: those of the result
            best, _ = load_tensors(self.folder / self.progress.best_file)
            self.best = {k: v.to(device) for k, v in best.items()}
            self._best_written = self.progress.best_step
        self.logger.rewind(self.progress.lines)

    def _finish(self) -> None:
        """Keep the best weights; without a score, the mean of the last ones."""
        keep = self.keep_last and (self._small() or self.progress.best_step == self.progress.step)
        if keep:
            self._save()  # it names the best weights, which stay until the result holds them
        if self.best is not None:
            restore(self.stage.model, self.best, self.stage.name)
        elif self.average.count:
            restore(self.stage.model, self.average.mean, self.stage.name)
        self.progress.finished, self.progress.sums = True, {}
        if self.processes.main:
            save_tensors(self.result_path, trainable(self.stage.model), vars(self.progress))
            if not keep:
                self.checkpoint_path.unlink(missing_ok=True)
            self._sweep("")
        self.processes.wait()

    def _small(self) -> bool:
        """Does a checkpoint (weights and two moments each) take little space?"""
        return 3 * sum(p.nbytes for p in trainable(self.stage.model).values()) <= _SMALL_CHECKPOINT


class LastAverage:
    """The running mean of the weights over the last updates of a stage (stochastic weight averaging).

    Without a dev split nothing says which of the last weights are good, and their mean is better than most of them.
    """

    SAMPLES = 50  # states of the weights in the mean: more of them cost time and change nothing

    def __init__(self, config: TrainConfig, budget: Budget) -> None:
        self.since = budget.averaging_since(config)
        self.every = max(1, (budget.total - self.since) // self.SAMPLES)
        self.count, self.mean = 0, dict[str, Tensor]()

    @torch.no_grad()
    def add(self, step: int, model: nn.Module) -> None:
        """Count the weights after update ``step`` in, if it is one of the last."""
        if step <= self.since or (step - self.since) % self.every:
            return
        self.count += 1
        for name, weights in trainable(model).items():
            if self.count == 1:
                self.mean[name] = weights.clone()
            else:
                self.mean[name].lerp_(weights, 1 / self.count)

    def restore(self, count: int, mean: Mapping[str, Tensor]) -> None:
        """What a checkpoint holds."""
        self.count, self.mean = count, dict(mean)


def trainable(model: nn.Module) -> dict[str, Tensor]:
    """The parameters that training can change; the rest is rebuilt from config and data."""
    return {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}


@torch.no_grad()
def restore(model: nn.Module, tensors: Mapping[str, Tensor], place: str) -> None:
    """Copy saved values into the parameters they were saved from; names and shapes must agree."""
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    if set(parameters) != set(tensors):
        odd = sorted(set(parameters) ^ set(tensors))
        raise CheckpointError(
            f"its parameters differ from the model's, e.g. {odd[0]}",
            place=place,
            fix="resume with the same data and settings, or choose another --out",
        )
    for name, value in tensors.items():
        if parameters[name].shape != value.shape:
            raise CheckpointError(
                f"{name} has shape {tuple(value.shape)}",
                place=place,
                expected=f"{tuple(parameters[name].shape)}",
                fix="resume with the same data and settings, or choose another --out",
            )
        parameters[name].copy_(value)
