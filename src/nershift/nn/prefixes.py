"""A BiLSTM over every prefix of a label sequence, all prefixes at once, with no loop over prefixes.

Position ``i`` reads the labels ``0..i`` of a sequence of ``n``. Its forward states are those of one pass over the
whole sequence, since that direction never looks ahead. Its backward states differ from prefix to prefix: they come
from a walk that starts at label ``i`` and goes down to label 0. All walks take their steps together: at step ``d``
each position ``i >= d`` reads label ``i - d``, so ``n`` steps serve the ``n`` prefixes of all sentences.

On a GPU the walks are one packed batch for the library kernel, whose sizes follow from shapes alone. On a CPU, where
arithmetic is dear, walks that have read the same labels so far are one walk (see :mod:`nershift.nn.walks`).
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence

from nershift.nn.walks import merged_walks, walk


class PrefixLSTM(nn.Module):
    """Forward and backward LSTM (eq. 3 of LANER) with ``size`` units each over label vectors of ``size``."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.ahead = nn.LSTM(size, size, batch_first=True)
        self.back = nn.LSTM(size, size)

    def forward_states(self, table: Tensor, labels: Tensor) -> Tensor:
        """States ``[B, n, D]``; state k serves every prefix that holds label k."""
        return self.ahead(table[labels])[0]

    def newest(self, table: Tensor, labels: Tensor) -> Tensor:
        """Backward state ``[B, n, D]`` at the last label of each prefix: one step from zero, once a label."""
        return self.back(table[None])[0][0][labels]

    def backward_states(
        self, table: Tensor, labels: Tensor, live: Tensor, first: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Backward states of the prefixes that end at positions ``first`` to ``n - 1``.

        Args:
            table: vectors of all labels, ``[K, D]``.
            labels: ids, ``[B, n]``.
            live: bool, ``[B, n]``: positions whose states matter.

        Returns:
            states ``[N, D]``, and ``[B, n - first, n]``: which of them is the state at label k of the prefix that
            ends at i. What is named at k > i, and at positions that are not live, has no meaning.
        """
        if labels.is_cuda:
            where = _unpacking(labels.shape[1], first).to(labels.device, non_blocking=True)  # [n - first, n]
            sentences = torch.arange(len(labels), device=labels.device)[:, None, None]
            return self.packed(table[labels], first), where * len(labels) + sentences
        # There are few labels: what each adds to the gates is computed once a label, not once a step.
        weights = dict(self.back.named_parameters())
        gates = linear(table, weights["weight_ih_l0"], weights["bias_ih_l0"] + weights["bias_hh_l0"])
        steps, where = merged_walks(labels, live, first)
        return walk(gates, weights["weight_hh_l0"], steps), where

    def packed(self, vectors: Tensor, first: int) -> Tensor:
        """All walks over ``vectors [B, n, D]`` as one packed batch; states step by step, ``[P·B, D]``."""
        batch, n = vectors.shape[:2]
        newest_first, rows = vectors.flip(1).transpose(0, 1), _counts(n, first)
        data = torch.cat([newest_first[d : d + row].flatten(0, 1) for d, row in enumerate(rows)])
        return self.back(PackedSequence(data, torch.tensor(rows) * batch))[0].data


def _counts(n: int, first: int) -> list[int]:
    """How many positions take part in each step: ``n - 1`` down to ``max(d, first)``, in this order."""
    return [n - max(d, first) for d in range(n)]


@lru_cache(maxsize=512)
def _unpacking(n: int, first: int) -> Tensor:
    """``[n - first, n]``: which packed row holds (position i, label k); 0 where k > i."""
    starts = torch.tensor([0, *_counts(n, first)]).cumsum(0)
    i, k = torch.arange(first, n)[:, None], torch.arange(n)
    return torch.where(k <= i, starts[(i - k).clamp(min=0)] + (n - 1 - i), 0)
