"""A BiLSTM over every prefix of a label sequence, all prefixes at once, with no loop over prefixes.

Position ``i`` reads the labels ``0..i`` of a sequence of ``n``. Its forward states are those of one pass over the
whole sequence, since that direction never looks ahead. Its backward states differ from prefix to prefix: they come
from an LSTM that starts at label ``i`` and walks down to label 0. All these walks take their steps together:
at step ``d`` each position ``i >= d`` reads label ``i - d``, so ``n`` steps serve ``n`` prefixes of all sentences.

States of step ``d`` are stored one after another ("packed"): positions ``n - 1`` down to ``max(d, first)``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence


class PrefixLSTM(nn.Module):
    """Forward and backward LSTM (eq. 3 of LANER) with ``size`` units each over label vectors of ``size``."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.ahead = nn.LSTM(size, size)
        self.back = nn.LSTM(size, size)

    def forward_states(self, vectors: Tensor) -> Tensor:
        """States ``[n, B, D]`` of label vectors ``[n, B, D]``; state k serves every prefix that holds label k."""
        return self.ahead(vectors)[0]

    def newest(self, vectors: Tensor) -> Tensor:
        """Backward state ``[n, B, D]`` at the last label of each prefix: one step from the zero state."""
        flat = vectors.reshape(1, -1, self.size)
        return self.back(flat)[0].view(vectors.shape)

    def backward_states(self, table: Tensor, labels: Tensor, first: int = 0) -> Tensor:
        """Backward states of the prefixes that end at positions ``first`` to ``n - 1``.

        Args:
            table: vectors of all labels, ``[K, D]``.
            labels: ids, ``[n, B]``.

        Returns:
            ``[n - first, n, B, D]``: state at label k of the prefix that ends at i; what stands at k > i has no
            meaning and no gradient if it is masked.
        """
        n, batch = labels.shape
        newest_first = labels.flip(0)
        if labels.is_cuda:
            packed = self._packed_cudnn(table[newest_first], first)
        else:
            # There are few labels: what each adds to the gates is computed once a label, not once a step.
            bias = self.back.bias_ih_l0 + self.back.bias_hh_l0
            gates = linear(table, self.back.weight_ih_l0, bias)[newest_first]  # [n, B, 4D]
            keep = torch.is_grad_enabled()
            packed = _Walks.apply(gates, self.back.weight_hh_l0, first, keep)  # type: ignore[no-untyped-call]
        where = unpacking(n, first).to(labels.device, non_blocking=True)
        return packed.view(-1, batch * self.size)[where].view(n - first, n, batch, self.size)

    def _packed_cudnn(self, vectors: Tensor, first: int) -> Tensor:
        """The walks as one packed batch for the library kernel; sizes follow from shapes, so nothing waits."""
        n, batch = vectors.shape[:2]
        rows = counts(n, first)
        data = torch.cat([vectors[d : d + row].flatten(0, 1) for d, row in enumerate(rows)])
        sizes = torch.tensor([row * batch for row in rows])
        return self.back(PackedSequence(data, sizes))[0].data


def counts(n: int, first: int) -> list[int]:
    """How many positions take part in each step."""
    return [n - max(d, first) for d in range(n)]


@lru_cache(maxsize=512)
def unpacking(n: int, first: int) -> Tensor:
    """``[n - first, n]``: where the packed state of (position i, label k) is; 0 where k > i."""
    rows = torch.tensor([0, *counts(n, first)]).cumsum(0)  # start of each step
    i, k = torch.arange(first, n)[:, None], torch.arange(n)
    return torch.where(k <= i, rows[(i - k).clamp(min=0)] + (n - 1 - i), 0)


class _Walks(torch.autograd.Function):
    """LSTM steps over ``gates [n, B, 4D]`` (what the labels add, newest first) -> packed states ``[P·B, D]``."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, first: int, keep: bool) -> Tensor:
        n, batch, width = gates.shape
        size, rows, transposed = width // 4, counts(n, first), weight.t()
        total = sum(rows) * batch
        hidden = gates.new_empty(total, size)
        kept = (gates.new_empty(total, width), gates.new_empty(total, size)) if keep else None
        at, h, c = 0, gates.new_empty(0), gates.new_empty(0)
        for d, row in enumerate(rows):
            m = row * batch
            x = gates[d : d + row].reshape(m, width)
            out = kept[0][at : at + m] if kept else torch.empty_like(x)
            if d:
                torch.addmm(x, h[:m], transposed, out=out)
            else:
                out.copy_(x)
            out[:, : 2 * size].sigmoid_()
            out[:, 2 * size : 3 * size].tanh_()
            out[:, 3 * size :].sigmoid_()
            entry, forget, new, exit_ = out.split(size, 1)
            c = torch.addcmul(entry * new, forget, c[:m]) if d else entry * new
            h = hidden[at : at + m]
            torch.mul(exit_, c.tanh(), out=h)
            if kept:
                kept[1][at : at + m] = c
            at += m
        ctx.first, ctx.shape = first, gates.shape
        if kept:
            ctx.save_for_backward(weight, hidden, *kept)
        return hidden

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:  # type: ignore[override]
        weight, hidden, kept, cells = ctx.saved_tensors
        n, batch, width = ctx.shape
        size, rows = width // 4, counts(n, ctx.first)
        d_gates, d_weight = hidden.new_zeros(ctx.shape), torch.zeros_like(weight)
        d_h, d_c = hidden.new_zeros(0, size), hidden.new_zeros(0, size)
        end = len(hidden)
        for d in range(n - 1, -1, -1):
            m = rows[d] * batch
            here, end = slice(end - m, end), end - m
            entry, forget, new, exit_ = kept[here].split(size, 1)
            squashed = cells[here].tanh()
            from_h, from_c = grad[here].clone(), d_c
            from_h[: len(d_h)] += d_h
            cell = from_h * exit_ * (1 - squashed * squashed)
            cell[: len(from_c)] += from_c
            step = torch.empty_like(kept[here])
            parts = step.split(size, 1)
            torch.mul(cell * new, entry * (1 - entry), out=parts[0])
            torch.mul(cell * entry, 1 - new * new, out=parts[2])
            torch.mul(from_h * squashed, exit_ * (1 - exit_), out=parts[3])
            if d:
                before = slice(end - rows[d - 1] * batch, end - rows[d - 1] * batch + m)
                torch.mul(cell * cells[before], forget * (1 - forget), out=parts[1])
                d_weight.addmm_(step.t(), hidden[before])
                d_h, d_c = step @ weight, cell * forget
            else:
                parts[1].zero_()
            d_gates[d : d + rows[d]] += step.view(rows[d], batch, width)
        return d_gates, d_weight, None, None
