"""What a task's gradient steps add to the output of a layer, without the task's own copy of the weights.

One class a kind of layer. Each holds, for every step, what the layer read and what gradient its output received,
by task; ``T`` tasks, ``P`` positions of a task's support, ``N`` rows of a batch to be read with the new weights.
Rows of a task that lie together are read as one, so that nothing of a task is copied for each of its rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, layer_norm

from nershift.methods.metacross.batched_adaptation.layout import Layout
from nershift.methods.metacross.batched_adaptation.step_rule import StepRule

_SMALL = 1024  # rows of a table whose gradient is formed for every task


class Change(ABC):
    """What the tasks' layers make of ``x [N, ..., in]``, given ``out``, what the shared layer makes of it."""

    @abstractmethod
    def add(self, read: Tensor, grad: Tensor) -> None:
        """One more step of every task: what the layer read and the gradient of its output, [T, P, ...]."""

    @abstractmethod
    def __call__(self, out: Tensor, x: Tensor, layout: Layout) -> Tensor: ...


def _trained(p: Tensor | None) -> bool:
    return p is not None and p.requires_grad


class _Vectors:
    """Changes of a bias or a norm's scale, [T, H]."""

    def __init__(self, rule: StepRule) -> None:
        self.rule, self.grads = rule, list[Tensor]()

    def add(self, grad: Tensor, dtype: torch.dtype) -> None:
        if self.rule.clip:
            grad = grad * self.rule.scale((grad * grad).sum(1, keepdim=True))
        self.grads.append(grad)
        self.change = self.rule.change(self.grads).to(dtype)


class LinearChange(Change):
    """SGD: W changes by Σ g aᵀ and the bias by Σ g over positions, applied as ``(x Aᵀ + 1) G``.

    Else the change of W is formed, used, dropped.
    """

    def __init__(self, module: nn.Linear, rule: StepRule, scores: Scores) -> None:
        self.rule, self.weight, self.scores = rule, module.weight, scores
        self.has_weight, has_bias = _trained(module.weight), _trained(module.bias)
        # With clipping a weight's terms and a bias's have factors of their own; without, they share one pass.
        self.lifted = has_bias and self.has_weight and rule.low_rank and not rule.clip
        self.bias = _Vectors(rule) if has_bias and not self.lifted else None
        self.steps: list[tuple[Tensor, Tensor, Tensor | None]] = []  # read, gradient, clipping [T, 1, 1]

    def add(self, read: Tensor, grad: Tensor) -> None:
        if self.has_weight:
            self.steps.append((read, grad, self._factor(read, grad) if self.rule.clip else None))
        if self.bias is not None:
            self.bias.add(grad.sum(1), grad.dtype)

    def _factor(self, a: Tensor, g: Tensor) -> Tensor:
        """The norm of Σ g aᵀ comes from inner products of positions."""
        square = ((a @ a.mT) * (g @ g.mT)).sum((1, 2))
        return self.rule.scale(square)[:, None, None].to(g.dtype)

    def __call__(self, out: Tensor, x: Tensor, layout: Layout) -> Tensor:
        made = layout.folded(out)
        if self.steps and self.rule.low_rank:
            for a, g, factor in self.steps:
                found = self.scores(x, a, layout, float(self.lifted))  # [T, S, P]
                if factor is not None:
                    found = found * layout.of_folded(factor, len(x))
                made = _added(made, found, layout.of_folded(g, len(x)), -self.rule.rate)
        elif self.steps:
            form = lambda: layout.of_folded(self._formed(), len(x))  # noqa: E731 - made anew in backward
            made = made + _Formed.apply(layout.folded(x), form).to(out.dtype)
        if self.bias is not None:
            made = made + layout.of_folded(self.bias.change, len(x))[:, None]
        return made.view(out.shape)

    def _formed(self) -> Tensor:
        """[T, out, in], in the precision of the gradients: a product is summed in single precision or better."""
        grads = [g.mT @ a if factor is None else (g.mT @ a) * factor for a, g, factor in self.steps]
        return self.rule.change(grads, self.weight.detach())


def _added(out: Tensor, left: Tensor, right: Tensor, rate: float) -> Tensor:
    """``out + rate · left @ right``, in place where nothing has to be kept for a backward pass."""
    if out.requires_grad or left.requires_grad:
        return torch.baddbmm(out, left, right, alpha=rate)
    return out.baddbmm_(left, right, alpha=rate)


class _Formed(torch.autograd.Function):
    """``x ΔWᵀ`` for a ΔW that is made when needed, in the backward pass a second time, and never kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, form: Callable[[], Tensor]) -> Tensor:
        ctx.form, ctx.dtype = form, x.dtype
        change = form()
        return torch.bmm(x.to(change.dtype), change.mT)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        change = ctx.form()
        return torch.bmm(grad.to(change.dtype), change).to(ctx.dtype), None


class Scores:
    """``x Aᵀ``, kept for the next layer: query, key and value projections read the same states."""

    def __init__(self) -> None:
        self._seen: list[tuple[Tensor, Tensor, float, Tensor]] = []

    def __call__(self, x: Tensor, a: Tensor, layout: Layout, lift: float) -> Tensor:
        """[T, S, P], with ``lift`` added: what a position adds by the bias beside the weight."""
        for seen_x, seen_a, seen_lift, found in self._seen:
            if seen_x is x and seen_a is a and seen_lift == lift:
                return found
        if self._seen and self._seen[0][0] is not x:
            self._seen = []
        found = layout.folded(x).to(a.dtype) @ layout.of_folded(a, len(x)).mT
        found = found + lift if lift else found
        self._seen.append((x, a, lift, found))
        return found

    def clear(self) -> None:
        self._seen = []


class NormChange(Change):
    def __init__(self, module: nn.LayerNorm, rule: StepRule) -> None:
        self.module = module
        self.scale = _Vectors(rule) if _trained(module.weight) else None
        self.shift = _Vectors(rule) if _trained(module.bias) else None

    def add(self, read: Tensor, grad: Tensor) -> None:
        if self.scale is not None:
            self.scale.add((grad * self._centred(read)).sum(1), grad.dtype)
        if self.shift is not None:
            self.shift.add(grad.sum(1), grad.dtype)

    def _centred(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.module.normalized_shape, eps=self.module.eps)

    def __call__(self, out: Tensor, x: Tensor, layout: Layout) -> Tensor:
        made = layout.folded(out)
        if self.scale is not None:
            centred = layout.folded(self._centred(x)).to(out.dtype)
            made = torch.addcmul(made, centred, layout.of_folded(self.scale.change, len(x))[:, None])
        if self.shift is not None:
            made = made + layout.of_folded(self.shift.change, len(x))[:, None]
        return made.view(out.shape)


class TableChange(Change):
    """Embeddings. A small table's gradient is formed; of a large one only the rows that are looked up."""

    def __init__(self, module: nn.Embedding, rule: StepRule) -> None:
        self.rule, self.weight, self.padding = rule, module.weight, module.padding_idx
        self.small = len(self.weight) <= _SMALL
        self.steps: list[tuple[Tensor, Tensor]] = []  # ids [T, P] and gradients [T, P, H] of a large table
        self.grads: list[Tensor] = []  # [T, V, H] each, of a small one
        self.table: Tensor | None = None

    def add(self, read: Tensor, grad: Tensor) -> None:
        if not self.small:
            self.steps.append((read, grad * self._factor(read, grad) if self.rule.clip else grad))
            return
        dense = self._dense(read, grad)
        if self.rule.clip:
            dense = dense * self.rule.scale((dense * dense).sum((1, 2)))[:, None, None]
        self.grads.append(dense)
        self.table = self.rule.change(self.grads, self.weight.detach())  # [T, V, H]

    def _dense(self, ids: Tensor, g: Tensor) -> Tensor:
        tasks, rows = len(ids), len(self.weight)
        at = ids + rows * torch.arange(tasks, device=ids.device)[:, None]  # [T, P]
        out = g.new_zeros(tasks * rows, g.shape[-1]).index_add_(0, at.flatten(), g.flatten(0, 1))
        out = out.view(tasks, rows, -1)
        if self.padding is not None:
            out[:, self.padding] = 0
        return out

    def _same(self, left: Tensor, right: Tensor) -> Tensor:
        """One where two positions look up the same row; [N, S] and [N, P] → [N, S, P]."""
        same = left[:, :, None] == right[:, None]
        if self.padding is not None:
            same = same & (left != self.padding)[:, :, None]
        return same.to(self.weight.dtype)

    def _factor(self, ids: Tensor, g: Tensor) -> Tensor:
        square = (self._same(ids, ids) * (g @ g.mT)).sum((1, 2))
        return self.rule.scale(square)[:, None, None]

    def __call__(self, out: Tensor, x: Tensor, layout: Layout) -> Tensor:
        return out + self._found(x.flatten(1), layout).view(out.shape).to(out.dtype)

    def _found(self, flat: Tensor, layout: Layout) -> Tensor:
        """[N, S] → [N, S, H]"""
        rows = len(flat)
        if self.table is not None:
            tasks = layout.of_rows(torch.arange(len(self.table), device=flat.device), rows)
            return embedding(flat + len(self.weight) * tasks[:, None], self.table.flatten(0, 1))
        grads = [
            self._same(flat, layout.of_rows(ids, rows)) @ layout.of_rows(g, rows).to(self.weight.dtype)
            for ids, g in self.steps
        ]  # [N, S, H] each
        return self.rule.change(grads, embedding(flat, self.weight.detach()))
