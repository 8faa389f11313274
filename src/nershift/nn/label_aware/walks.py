"""LSTM walks over label sequences on a CPU: walks that have read the same labels so far are taken once.

The walks form a forest: a node is what was read so far, its parent the same without the last label. Label sequences
repeat themselves (most tags are ``O``), so a batch has far fewer nodes than steps: about 0.4 of them in short
sentences and 0.65 in long ones. Results do not change, since equal inputs give equal states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Step:
    """The nodes of one depth: number of the parent among the nodes of the depth before, and the label read."""

    parent: Tensor  # [U], empty at the first step
    label: Tensor  # [U]


def merged_walks(
    labels: Tensor, live: Tensor, first: int, depth: int | None = None
) -> tuple[list[Step], Tensor]:
    """Nodes of the walks that start at each live position ``i >= first`` and go down to label 0.

    Args:
        labels: ids, ``[B, n]``.
        live: bool, ``[B, n]``.
        depth: labels that a walk reads at most; None: all.

    Returns:
        the steps, and the node ``[B, n - first, n]`` of (sentence, position i, label k); 0 where there is none.
    """
    ids, n = labels.numpy(), labels.shape[1]
    size = int(ids.max(initial=0)) + 1
    i, b = np.nonzero(live.numpy()[:, first:].T)
    i, b = i[::-1] + first, b[::-1]  # last positions first: the walks of a step are a leading part
    active = np.searchsorted(-i, -np.arange(n), side="right")  # walks with i >= d
    where = np.zeros((len(ids), n - first, n), np.int64)
    steps, node, offset = list[Step](), np.zeros(len(i), np.int64), 0
    deepest = int(i.max(initial=-1)) + 1
    for d in range(deepest if depth is None else min(depth, deepest)):
        rows, sentence = i[: active[d]], b[: active[d]]
        keys, node = np.unique(node[: active[d]] * size + ids[sentence, rows - d], return_inverse=True)
        where[sentence, rows - first, rows - d] = node + offset
        parent = torch.from_numpy(keys // size) if d else torch.empty(0, dtype=torch.long)
        steps.append(Step(parent, torch.from_numpy(keys % size)))
        offset += len(keys)
    return steps, torch.from_numpy(where)


def walk(gates: Tensor, weight: Tensor, steps: list[Step]) -> Tensor:
    """States of all nodes, depth by depth, ``[nodes, D]``.

    Args:
        gates: what each label adds to the four gates, biases included, ``[K, 4D]``.
        weight: recurrent weights, ``[4D, D]``.
    """
    return _Walk.apply(gates, weight, steps, torch.is_grad_enabled())


class _Walk(torch.autograd.Function):
    """Written out by hand: saves only gates and cells, and sums the weights' gradient in large products."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, steps: list[Step], keep: bool) -> Tensor:
        size = weight.shape[1]
        # tanh(x) = 2 sigmoid(2x) - 1, which is several times faster: the new values' share is doubled beforehand.
        doubled = torch.ones(4 * size, dtype=gates.dtype)
        doubled[2 * size : 3 * size] = 2.0
        scaled, transposed = gates * doubled, (weight * doubled[:, None]).t()
        total = sum(len(step.label) for step in steps)
        hidden = gates.new_empty(
            max(total, 1), size
        )  # an empty batch still has the node that stands for none
        if not total:
            hidden.zero_()
        opened = gates.new_empty(total if keep else 0, 4 * size)
        cells = gates.new_empty(total if keep else 0, size)
        at, h, c = 0, gates.new_empty(0), gates.new_empty(0)
        for d, step in enumerate(steps):
            here = slice(at, at + len(step.label))
            at = here.stop
            out = scaled.index_select(0, step.label)
            if d:
                out.addmm_(h.index_select(0, step.parent), transposed)
            out.sigmoid_()
            enter, forget, new, leave = out.split(size, 1)
            new.mul_(2).sub_(1)
            before, c = c, enter * new
            if d:
                c.addcmul_(forget, before.index_select(0, step.parent))
            h = hidden[here]
            torch.mul(leave, (2 * c).sigmoid_().mul_(2).sub_(1), out=h)
            if keep:
                opened[here], cells[here] = out, c
        ctx.steps, ctx.labels = steps, len(gates)
        ctx.save_for_backward(weight, hidden, opened, cells)
        return hidden

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        weight, hidden, opened, cells = ctx.saved_tensors
        size = weight.shape[1]
        d_gates, d_weight = weight.new_zeros(ctx.labels, 4 * size), torch.zeros_like(weight)
        grad, d_c = grad.clone(), torch.empty(0)
        end = len(opened)
        for d in range(len(ctx.steps) - 1, -1, -1):
            step = ctx.steps[d]
            here, end = slice(end - len(step.label), end), end - len(step.label)
            enter, forget, new, leave = opened[here].split(size, 1)
            squashed, d_h = cells[here].tanh(), grad[here]
            cell = d_h * leave * (1 - squashed * squashed)
            if len(d_c):
                cell += d_c
            moved = torch.empty_like(opened[here])
            parts = moved.split(size, 1)
            torch.mul(cell * new, enter * (1 - enter), out=parts[0])
            torch.mul(cell * enter, 1 - new * new, out=parts[2])
            torch.mul(d_h * squashed, leave * (1 - leave), out=parts[3])
            if d:
                before = slice(end - len(ctx.steps[d - 1].label), end)
                torch.mul(cell * cells[before][step.parent], forget * (1 - forget), out=parts[1])
                d_weight.addmm_(moved.t(), hidden[before][step.parent])
                grad[before].index_add_(0, step.parent, moved @ weight)
                d_c = torch.zeros_like(cells[before]).index_add_(0, step.parent, cell * forget)
            else:
                parts[1].zero_()
            d_gates.index_add_(0, step.label, moved)
        return d_gates, d_weight, None, None
