"""Training steps recorded on the GPU once for each shape of their batches, and replayed.

A step of a small recurrent model is some three hundred kernels of a few microseconds each, one of a transformer on a
few sentences more than a thousand: launching them takes several times as long as running them. A CUDA graph launches
all at once. Batches are padded so that few shapes occur.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nershift.backend.cuda_graphs import cause, own_stream, record
from nershift.encoders.base import Encoder
from nershift.encoders.birnn import fast_kernels
from nershift.encoders.concat import ConcatEncoder
from nershift.encoders.recurrent import RecurrentEncoder, alike, wider
from nershift.encoders.transformer import TransformerEncoder
from nershift.encoders.words import WordTable
from nershift.heads.base import Head
from nershift.model import Batch
from nershift.text.rounding import Rounding
from nershift.training.optim import RECORDED
from nershift.training.processes import Processes
from nershift.training.stage import MixedStage, TrainingStage

Compute = Callable[[Mapping[str, Batch]], dict[str, Tensor]]
_MOST = 64  # recordings of a stage
_GIB = 12.0  # of the GPU's memory: once the process holds so much, no more are made, for each keeps what it needed
# Of a step with one batch, and of one with two, which are padded to one shape, the widest of each axis. With more of
# them, padding would take longer to run than is won by not launching.
_ROUNDINGS = (Rounding(8, 64, 8), Rounding(16, 256, 8))
_TRANSFORMERS = (TransformerEncoder, ConcatEncoder)


def suits(stage: TrainingStage, processes: Processes) -> bool:
    """Whether the phase's steps can be recorded: all on one GPU, by parts that never ask the CPU."""
    config = stage.config
    return (
        config.cuda_graphs
        and stage.recordable
        and processes.world == 1
        and processes.device.type == "cuda"
        and config.accumulate == 1
        and config.optimizer in RECORDED
        and all(m.cuda_graph_safe for m in stage.model.modules() if isinstance(m, Head))
        and (_recurrent(stage) or (type(stage.model.encoder) in _TRANSFORMERS and _at_once(stage) == 1))
    )


def _recurrent(stage: TrainingStage) -> bool:
    from nershift.methods.datnet.shared_private import SharedPrivateEncoder

    encoders = [m for m in stage.model.modules() if isinstance(m, Encoder)]
    return (
        _at_once(stage) <= len(_ROUNDINGS)
        and stage.config.precision == "fp32"
        and fast_kernels(next(stage.model.parameters()))
        and all(type(e) in (RecurrentEncoder, SharedPrivateEncoder) for e in encoders)
        and all(isinstance(e.words, WordTable) for e in encoders if isinstance(e, RecurrentEncoder))
    )


def _at_once(stage: TrainingStage) -> int:
    """Batches that a step reads."""
    return 1 if isinstance(stage, MixedStage) else len(stage.samplers)


@dataclass
class _Take:
    """A recorded step: what it reads, how to run it again, and what it tells the log, overwritten by each run."""

    inputs: list[Tensor]
    replay: Callable[[], Any]
    logged: dict[str, Tensor]


class GraphRunner:
    """Runs the steps of a stage. Of each shape the first step runs as it is, the second is recorded.

    Args:
        compute: one step, from batches to changed weights, without any look at a value on the GPU.
    """

    def __init__(self, stage: TrainingStage, compute: Compute) -> None:
        self.stage, self.compute = stage, compute
        self.takes: dict[Any, _Take | None] = {}  # None: the shape was met once
        self.broken = ""

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Everything that the stage does, on a stream of its own, since the default one cannot be recorded."""
        kinds = (RecurrentEncoder, TransformerEncoder)
        encoders = [m for m in self.stage.model.modules() if isinstance(m, kinds)]
        for encoder in encoders:
            encoder.rounding = _ROUNDINGS[_at_once(self.stage) - 1]
        try:
            with self._stream():
                yield
        finally:
            for encoder in encoders:
                encoder.rounding = None

    @contextmanager
    def _stream(self) -> Iterator[None]:
        with own_stream(self.stage.model.device) as self.pool:
            yield

    def step(self, batches: Mapping[str, Batch]) -> dict[str, Tensor]:
        batches = _alike(batches)
        tensors = [tensor for batch in batches.values() for tensor in _tensors(batch)]
        key = (*batches, *(tensor.shape for tensor in tensors))
        take = self.takes.get(key)
        if take is None and key in self.takes and self._room():
            take = self.takes[key] = self._record(batches)
        if take is None:
            self.takes.setdefault(key)
            return self.compute(batches)
        _copy(take.inputs, tensors)
        take.replay()
        return take.logged

    def _room(self) -> bool:
        made = sum(take is not None for take in self.takes.values())
        return not self.broken and made < _MOST and torch.cuda.memory_reserved() < _GIB * 2**30

    def _record(self, batches: Mapping[str, Batch]) -> _Take | None:
        own = {name: _copied(batch) for name, batch in batches.items()}
        inputs = [tensor for batch in own.values() for tensor in _tensors(batch)]
        try:
            replay, logged = self._capture(lambda: self.compute(own))
        except RuntimeError as error:
            self.broken = cause(error)
            warnings.warn(f"steps are not recorded, which is slower: {self.broken}", RuntimeWarning, stacklevel=2)
            for p in self.stage.model.parameters():
                p.grad = None
            return None
        torch.cuda.empty_cache()  # what the same step took unrecorded; recordings have memory of their own
        return _Take(inputs, replay, logged)

    def _capture(self, run: Callable[[], dict[str, Tensor]]) -> tuple[Callable[[], Any], dict[str, Tensor]]:
        return record(run, self.pool)


def _alike(batches: Mapping[str, Batch]) -> dict[str, Batch]:
    """The same batches padded to one shape, with lengths worked out where they are; sub-words have none."""
    if any("rows" not in batch.inputs for batch in batches.values()):
        return dict(batches)
    made = {}
    padded = alike([batch.inputs for batch in batches.values()])
    for (name, batch), inputs in zip(batches.items(), padded, strict=True):
        targets = batch.targets
        if targets is not None:  # [B, L, …]
            inner = (0,) * (2 * (targets.dim() - 2))
            targets = wider(targets, (*inner, 0, inputs["mask"].shape[1] - targets.shape[1]))
        made[name] = replace(batch, inputs=inputs | {"lengths": inputs["mask"].sum(1)}, targets=targets)
    return made


def _tensors(batch: Batch) -> list[Tensor]:
    """What a step reads."""
    return [*batch.inputs.values(), *([] if batch.targets is None else [batch.targets])]


def _copied(batch: Batch) -> Batch:
    inputs = {name: tensor.clone() for name, tensor in batch.inputs.items()}
    return replace(batch, inputs=inputs, targets=None if batch.targets is None else batch.targets.clone())


def _copy(to: list[Tensor], tensors: list[Tensor]) -> None:
    """One kernel for all numbers and one for all masks."""
    for kind in {tensor.dtype for tensor in to}:
        pairs = [(a, b) for a, b in zip(to, tensors, strict=True) if a.dtype == kind]
        torch._foreach_copy_([a for a, _ in pairs], [b for _, b in pairs])
