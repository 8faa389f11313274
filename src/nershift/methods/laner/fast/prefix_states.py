"""States of the label BiLSTM (eq. 3) over every prefix of a label sequence, all prefixes at once.

Position ``i`` reads labels ``0..i``. Its forward states are part of one pass over the whole sequence, since that
direction never looks ahead. Its backward states differ from prefix to prefix: they come from a walk that starts at
label ``i`` and goes down to label 0. All walks take their steps together: at step ``d`` each position ``i >= d`` reads
label ``i - d``, so ``n`` steps serve the ``n`` prefixes of all sentences.

On a GPU the walks are one packed batch for the library's kernel, whose sizes depend on shapes alone. Where no gradient
is needed, one CUDA kernel does walks and attention together (:mod:`.kernels`). On a CPU, walks that have read the same
labels so far are one walk (:mod:`.merged_walks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence

from nershift.backend.device import GpuKernel, look_up
from nershift.methods.laner.fast.merged_walks import merge_walks, walk
from nershift.methods.laner.head import LabelEncoder

MAX_FUSED = 128  # label units: larger weights do not fit shared memory, and the CUDA kernel no longer pays
_fused = GpuKernel(
    "nershift.methods.laner.fast.kernels",
    "label-aware decoding stores all states: equal results, but slower",
    "context",
)


def forward_states(encoder: LabelEncoder, table: Tensor, labels: Tensor) -> Tensor:
    """``[B, n, D]`` from label vectors ``[K, D]`` and ids ``[B, n]``; state k serves every prefix with label k."""
    return encoder.ahead(look_up(table, labels))[0]


def newest_states(encoder: LabelEncoder, table: Tensor) -> Tensor:
    """Backward state at the last label of a prefix, one step from zero, for each label: ``[K, D]``."""
    return encoder.back(table[None])[0][0]


def backward_states(
    encoder: LabelEncoder, table: Tensor, labels: Tensor, live: Tensor, first: int = 0
) -> tuple[Tensor, Tensor]:
    """Backward states of the prefixes that end at positions ``first`` to ``n - 1``.

    Args:
        table: vectors of all labels, ``[K, D]``.
        labels: ids, ``[B, n]``.
        live: bool, ``[B, n]``: positions whose states matter.

    Returns:
        states ``[N, D]``, and ``[B, n - first, n]``: which of them is the state at label k of the prefix that ends at
        i. Entries with k > i, and those of positions that are not live, are arbitrary.
    """
    if not labels.is_cuda:
        steps, where = merge_walks(labels, live, first)
        return walk(*recurrence(encoder, table), steps), where
    batch, n = labels.shape
    packing = _packing(n, first, labels.device)
    vectors = look_up(table, labels.t()[packing.label].flatten())  # [P·B, D], step by step
    states = encoder.back(PackedSequence(vectors, packing.rows * batch))[0].data
    sentences = torch.arange(batch, device=labels.device)[:, None, None]
    return states, packing.where * batch + sentences


def fused_context(
    encoder: LabelEncoder,
    table: Tensor,
    labels: Tensor,
    ahead: Tensor,
    query: Tensor,
    scores: Tensor,
    live: Tensor,
    first: int,
) -> Tensor | None:
    """Attention over the states of each prefix by the CUDA kernel, ``[B, R, 2D]``; None where it cannot be used.

    The arguments are those of :func:`nershift.methods.laner.fast.kernels.context`.
    """
    small = ahead.shape[-1] <= MAX_FUSED and ahead.dtype == torch.float32
    if not labels.is_cuda or torch.is_grad_enabled() or not small:
        return None
    context: Tensor | None = _fused(*recurrence(encoder, table), labels, ahead, query, scores, live, first)
    return context


def recurrence(encoder: LabelEncoder, table: Tensor) -> tuple[Tensor, Tensor]:
    """What each label adds to the gates of the backward LSTM, ``[K, 4D]``, and its recurrent weights ``[4D, D]``.

    There are few labels, so the first is computed once per label, not once per step.
    """
    weights = dict(encoder.back.named_parameters())
    gates = linear(table, weights["weight_ih_l0"], weights["bias_ih_l0"] + weights["bias_hh_l0"])
    return gates, weights["weight_hh_l0"]


@dataclass(frozen=True)
class _Packing:
    """The walks from positions ``first`` to ``n - 1`` as one packed batch, step by step, last positions first."""

    rows: Tensor  # [n]: walks that take part in each step; on the CPU, as the library expects
    label: Tensor  # [P]: which label each packed row reads
    where: Tensor  # [n - first, n]: which packed row holds (position i, label k); 0 where k > i


@lru_cache(maxsize=512)
def _packing(n: int, first: int, device: torch.device) -> _Packing:
    counts = [n - max(d, first) for d in range(n)]  # positions n - 1 down to max(d, first)
    label = torch.cat([n - 1 - d - torch.arange(count) for d, count in enumerate(counts)])
    starts = torch.tensor([0, *counts]).cumsum(0)
    i, k = torch.arange(first, n)[:, None], torch.arange(n)
    where = torch.where(k <= i, starts[(i - k).clamp(min=0)] + (n - 1 - i), 0)
    return _Packing(torch.tensor(counts), label.to(device), where.to(device))
