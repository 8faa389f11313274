"""A BiLSTM over every prefix of a label sequence, all prefixes at once, with no loop over prefixes.

Position ``i`` reads the labels ``0..i`` of a sequence of ``n``. Its forward states are those of one pass over the
whole sequence, since that direction never looks ahead. Its backward states differ from prefix to prefix: they come
from a walk that starts at label ``i`` and goes down to label 0. All walks take their steps together: at step ``d``
each position ``i >= d`` reads label ``i - d``, so ``n`` steps serve the ``n`` prefixes of all sentences.

On a GPU the walks are one packed batch for the library kernel, whose sizes follow from shapes alone; where no
gradient is wanted, a kernel of ours takes walks and attention together
(:mod:`nershift.methods.laner.fast.on_gpu`). On a CPU, where arithmetic is dear, walks that have read the
same labels so far are one walk (:mod:`nershift.methods.laner.fast.walks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence

from nershift.backend.autograd import look_up
from nershift.backend.device import GpuKernel
from nershift.methods.laner.fast.walks import merged_walks, walk

WIDEST = 128  # units of a label for which the GPU kernel pays: larger weights fit no shared memory
_attended = GpuKernel(
    "nershift.methods.laner.fast.on_gpu",
    "label-aware decoding keeps all states, with equal results but slower",
    "context",
)


class PrefixLSTM(nn.Module):
    """Forward and backward LSTM (eq. 3 of LANER) with ``size`` units each over label vectors of ``size``."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.ahead = nn.LSTM(size, size, batch_first=True)
        self.back = nn.LSTM(size, size)

    def forward_states(self, table: Tensor, labels: Tensor) -> Tensor:
        """States ``[B, n, D]``; state k serves every prefix that holds label k."""
        return self.ahead(look_up(table, labels))[0]

    def newest(self, table: Tensor) -> Tensor:
        """Backward state at the last label of a prefix, by label: one step from zero, ``[K, D]``."""
        return self.back(table[None])[0][0]

    def backward_states(self, table: Tensor, labels: Tensor, live: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Backward states of the prefixes that end at positions ``first`` to ``n - 1``.

        Args:
            table: vectors of all labels, ``[K, D]``.
            labels: ids, ``[B, n]``.
            live: bool, ``[B, n]``: positions whose states matter.

        Returns:
            states ``[N, D]``, and ``[B, n - first, n]``: which of them is the state at label k of the prefix that
            ends at i. What is named at k > i, and at positions that are not live, has no meaning.
        """
        if not labels.is_cuda:
            return self._merged(table, labels, live, first, None)
        batch, n = labels.shape
        packing = _packing(n, first, labels.device)
        read = look_up(table, labels.t()[packing.read].flatten())  # [P·B, D], step by step
        states = self.back(PackedSequence(read, packing.rows * batch))[0].data
        sentences = torch.arange(batch, device=labels.device)[:, None, None]
        return states, packing.where * batch + sentences

    def attended(
        self,
        table: Tensor,
        labels: Tensor,
        ahead: Tensor,
        query: Tensor,
        scores: Tensor,
        live: Tensor,
        first: int,
    ) -> Tensor | None:
        """Attention over the states of each prefix by the GPU kernel, ``[B, R, 2D]``; None where that cannot be had.

        What it is given: see :func:`nershift.methods.laner.fast.on_gpu.context`.
        """
        if not labels.is_cuda or torch.is_grad_enabled() or self.size > WIDEST or ahead.dtype != torch.float32:
            return None
        found: Tensor | None = _attended(*self._recurrence(table), labels, ahead, query, scores, live, first)
        return found

    def recent_states(self, table: Tensor, labels: Tensor, live: Tensor, memory: int) -> Tensor:
        """Backward states of walks that end after ``memory`` labels.

        Returns:
            ``[B, n, memory, D]``: at depth d of the walk from i the state at label ``i - d``; without meaning where
            ``i < d`` and at positions that are not live.
        """
        batch, n = labels.shape
        if labels.is_cuda:
            recent = functional.pad(labels, (memory - 1, 0)).unfold(1, memory, 1).flip(-1)  # [B, n, memory]
            read = look_up(table, recent.flatten(0, 1).t())  # [memory, B·n, D]
            return self.back(read)[0].transpose(0, 1).unflatten(0, (batch, n))
        nodes, where = self._merged(table, labels, live, 0, memory)
        i = torch.arange(n)[:, None]
        where = where[:, i, (i - torch.arange(memory)).clamp(min=0)]  # [B, n, memory]
        return nodes.index_select(0, where.flatten()).unflatten(0, where.shape)

    def _merged(
        self, table: Tensor, labels: Tensor, live: Tensor, first: int, depth: int | None
    ) -> tuple[Tensor, Tensor]:
        steps, where = merged_walks(labels, live, first, depth)
        return walk(*self._recurrence(table), steps), where

    def _recurrence(self, table: Tensor) -> tuple[Tensor, Tensor]:
        """What each label adds to the gates of the backward LSTM, ``[K, 4D]``, and its recurrent weights ``[4D, D]``.

        There are few labels: the first is computed once a label, not once a step.
        """
        weights = dict(self.back.named_parameters())
        gates = linear(table, weights["weight_ih_l0"], weights["bias_ih_l0"] + weights["bias_hh_l0"])
        return gates, weights["weight_hh_l0"]


@dataclass(frozen=True)
class _Packing:
    """The walks from positions ``first`` to ``n - 1`` as one packed batch, step by step, last positions first."""

    rows: Tensor  # [n]: walks that take part in each step, on the CPU as the library wants it
    read: Tensor  # [P]: which label each packed row reads
    where: Tensor  # [n - first, n]: which packed row holds (position i, label k); 0 where k > i


@lru_cache(maxsize=512)
def _packing(n: int, first: int, device: torch.device) -> _Packing:
    counts = [n - max(d, first) for d in range(n)]  # positions n - 1 down to max(d, first)
    read = torch.cat([n - 1 - d - torch.arange(count) for d, count in enumerate(counts)])
    starts = torch.tensor([0, *counts]).cumsum(0)
    i, k = torch.arange(first, n)[:, None], torch.arange(n)
    where = torch.where(k <= i, starts[(i - k).clamp(min=0)] + (n - 1 - i), 0)
    return _Packing(torch.tensor(counts), read.to(device), where.to(device))
