"""Training steps recorded once per batch shape as CUDA graphs, and replayed.

A step of a small recurrent model launches some three hundred kernels of a few microseconds each; one of a transformer
on a few sentences, more than a thousand. Launching them takes several times as long as running them. A CUDA graph
launches all at once. Batches are padded so that few shapes occur.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from nershift.backend.cuda_graphs import cause, own_stream, record
from nershift.encoders.base import Encoder
from nershift.heads.base import Head
from nershift.model import Batch, TaggingModel
from nershift.text.word_cache import Rounding
from nershift.training.optim import RECORDED
from nershift.training.stage import MixedStage, TrainingStage

Logged = list[dict[str, Tensor]]  # what each part of a step logs
_MOST = 64  # recordings per stage
_GIB = 12.0  # of GPU memory: beyond it no more are made, since each keeps the memory it ran in
# For a step that reads one batch, and for one that reads two, which are padded to one shape.
_ROUNDINGS = (Rounding(8, 64, 8), Rounding(16, 256, 8))


def can_be_recorded(stage: TrainingStage) -> bool:
    """Whether every part of the stage's steps can be recorded."""
    config, parts = stage.config, list(stage.model.modules())
    encoders = [part for part in parts if isinstance(part, Encoder)]
    return (
        stage.cuda_graph_safe
        and config.accumulate == 1
        and config.optimizer in RECORDED
        and all(part.cuda_graph_safe for part in parts if isinstance(part, (Encoder, Head)))
        and all(_batches(stage) <= encoder.cuda_graph_batches for encoder in encoders)
        and all(config.precision in encoder.cuda_graph_precisions for encoder in encoders)
    )


def _batches(stage: TrainingStage) -> int:
    """How many batches a step reads."""
    return 1 if isinstance(stage, MixedStage) else len(stage.samplers)


@dataclass
class _Recording:
    """A recorded step: the tensors it reads, how to replay it, and its logged values, which each replay overwrites."""

    inputs: list[Tensor]
    replay: Callable[[], Any]
    logged: Logged


class GraphRunner:
    """Runs the steps of a stage. The first step of each shape runs as it is, the second is recorded.

    Args:
        compute: one step, from batches to updated weights; it must not read a value back from the GPU.
    """

    def __init__(self, stage: TrainingStage, compute: Callable[[Sequence[Mapping[str, Batch]]], Logged]) -> None:
        self.stage, self.compute = stage, compute
        self.recordings: dict[Any, _Recording | None] = {}  # None: a shape that occurred once
        self.broken = ""

    @contextmanager
    def recording(self) -> Iterator[Callable[[Sequence[Mapping[str, Batch]]], Logged]]:
        """How to run a step. Within, all work of the stage is on its own stream: the default one cannot be recorded."""
        encoders = [m for m in self.stage.model.modules() if isinstance(m, Encoder)]
        for encoder in encoders:
            encoder.rounding = _ROUNDINGS[min(_batches(self.stage), len(_ROUNDINGS)) - 1]
        try:
            with self._stream():
                yield self.step
        finally:
            for encoder in encoders:
                encoder.rounding = None

    @contextmanager
    def _stream(self) -> Iterator[None]:
        with own_stream(self.stage.model.device) as self.pool:
            yield

    def step(self, parts: Sequence[Mapping[str, Batch]]) -> Logged:
        (part,) = parts
        batches = _padded_alike(self.stage.model, part)
        tensors = [tensor for batch in batches.values() for tensor in _tensors(batch)]
        key = (*batches, *(tensor.shape for tensor in tensors))
        recording = self.recordings.get(key)
        if recording is None and key in self.recordings and self._room():
            recording = self.recordings[key] = self._record(batches)
        if recording is None:
            self.recordings.setdefault(key)
            return self.compute([batches])
        _copy(recording.inputs, tensors)
        recording.replay()
        return recording.logged

    def _room(self) -> bool:
        made = sum(recording is not None for recording in self.recordings.values())
        return not self.broken and made < _MOST and torch.cuda.memory_reserved() < _GIB * 2**30

    def _record(self, batches: Mapping[str, Batch]) -> _Recording | None:
        own = {name: _copied(batch) for name, batch in batches.items()}
        inputs = [tensor for batch in own.values() for tensor in _tensors(batch)]
        try:
            replay, logged = self._capture(lambda: self.compute([own]))
        except RuntimeError as error:
            self.broken = cause(error)
            warnings.warn(f"steps are not recorded, which is slower: {self.broken}", RuntimeWarning, stacklevel=2)
            for p in self.stage.model.parameters():
                p.grad = None
            return None
        torch.cuda.empty_cache()  # what the same step took unrecorded; recordings have memory of their own
        return _Recording(inputs, replay, logged)

    def _capture(self, run: Callable[[], Logged]) -> tuple[Callable[[], Any], Logged]:
        return record(run, self.pool)


def _padded_alike(model: TaggingModel, batches: Mapping[str, Batch]) -> dict[str, Batch]:
    """The batches of one step, padded to one shape."""
    inputs = model.encoder.pad_alike([batch.inputs for batch in batches.values()])
    return {name: _with_inputs(batch, own) for (name, batch), own in zip(batches.items(), inputs, strict=True)}


def _with_inputs(batch: Batch, inputs: dict[str, Tensor]) -> Batch:
    targets, more = batch.targets, inputs["mask"].shape[1] - batch.mask.shape[1]
    if targets is not None and more:  # [B, L, …]
        targets = pad(targets, (*(0, 0) * (targets.dim() - 2), 0, more))
    return replace(batch, inputs=inputs, targets=targets)


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
