"""What a task's gradient steps add to the output of a layer, without the task's own copy of the weights.

One class a kind of layer. Each holds, for every step, what the layer read and what gradient its output received,
by task; ``T`` tasks, ``P`` positions of a task's support, ``N`` rows of a batch to be read with the new weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, layer_norm

from nershift.nn.ghost_layout import Layout
from nershift.nn.step_rule import StepRule

Step = tuple[Tensor, Tensor]  # what was read [T, P, in], gradient of the output [T, P, out]
_SMALL = 1024  # rows of a table whose gradient is formed for every task


class Change(ABC):
    """``change(x, layout)`` is to be added to what the layer makes of ``x [N, ..., in]``."""

    @abstractmethod
    def __call__(self, x: Tensor, layout: Layout) -> Tensor: ...


def _trained(p: Tensor | None) -> bool:
    return p is not None and p.requires_grad


def _vectors(rule: StepRule, grads: Sequence[Tensor]) -> Tensor:
    """Changes of a bias or a norm, [T, H], from gradients of the same shape."""
    return rule.change([g * rule.scale((g * g).sum(1, keepdim=True)) for g in grads])


class LinearChange(Change):
    """SGD: the change of W is Σ g aᵀ over positions, applied as ``(x A) G``. Else it is formed, used, dropped."""

    def __init__(self, module: nn.Linear, rule: StepRule, steps: Sequence[Step], scores: Scores) -> None:
        self.rule, self.weight, self.scores = rule, module.weight, scores
        self.bias = _vectors(rule, [g.sum(1) for _, g in steps]) if _trained(module.bias) else None
        self.terms: list[Step] = []
        if _trained(module.weight):
            self.terms = [(a, g * self._factor(a, g)) for a, g in steps]

    def _factor(self, a: Tensor, g: Tensor) -> Tensor | float:
        """The clipping factor; the norm of Σ g aᵀ comes from inner products of positions."""
        rate = -self.rule.rate if self.rule.low_rank else 1.0
        if not self.rule.clip:
            return rate
        square = ((a @ a.mT) * (g @ g.mT)).sum((1, 2))
        return rate * self.rule.scale(square)[:, None, None]

    def __call__(self, x: Tensor, layout: Layout) -> Tensor:
        flat = x.flatten(1, -2) if x.ndim > 2 else x[:, None]  # [N, S, in]
        if self.terms and self.rule.low_rank:
            parts = [self.scores(flat, x, a, layout) @ layout.of_rows(g, len(x)) for a, g in self.terms]
            out = torch.stack(parts).sum(0) if len(parts) > 1 else parts[0]
        elif self.terms:
            out = _Formed.apply(flat, lambda: layout.of_rows(self._formed(), len(x)))
        else:
            out = flat.new_zeros(*flat.shape[:2], len(self.weight))
        if self.bias is not None:
            out = out + layout.of_rows(self.bias, len(x))[:, None]
        return out.view(*x.shape[:-1], -1)

    def _formed(self) -> Tensor:
        """[T, out, in], in single precision: Adam divides by what bf16 would round away."""
        with torch.autocast(self.weight.device.type, enabled=False):
            grads = [g.float().mT @ a.float() for a, g in self.terms]
            return self.rule.change(grads, self.weight.detach())


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
        self._seen: list[tuple[Tensor, Tensor, Tensor]] = []

    def __call__(self, flat: Tensor, x: Tensor, a: Tensor, layout: Layout) -> Tensor:
        for seen_x, seen_a, found in self._seen:
            if seen_x is x and seen_a is a:
                return found
        if self._seen and self._seen[0][0] is not x:
            self._seen = []
        found = flat @ layout.of_rows(a, len(x)).mT  # [N, S, P]
        self._seen.append((x, a, found))
        return found

    def clear(self) -> None:
        self._seen = []


class NormChange(Change):
    def __init__(self, module: nn.LayerNorm, rule: StepRule, steps: Sequence[Step]) -> None:
        self.module = module
        scales = [(g * self._centred(a)).sum(1) for a, g in steps] if _trained(module.weight) else []
        shifts = [g.sum(1) for _, g in steps] if _trained(module.bias) else []
        self.scale = _vectors(rule, scales) if scales else None  # [T, H]
        self.shift = _vectors(rule, shifts) if shifts else None

    def _centred(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.module.normalized_shape, eps=self.module.eps)

    def __call__(self, x: Tensor, layout: Layout) -> Tensor:
        wide = (len(x), *[1] * (x.ndim - 2), -1)
        out = torch.zeros_like(x)
        if self.scale is not None:
            out = self._centred(x) * layout.of_rows(self.scale, len(x)).view(wide)
        if self.shift is not None:
            out = out + layout.of_rows(self.shift, len(x)).view(wide)
        return out


class TableChange(Change):
    """Embeddings. A small table's gradient is formed; of a large one only the rows that are looked up."""

    def __init__(self, module: nn.Embedding, rule: StepRule, steps: Sequence[Step]) -> None:
        self.rule, self.weight, self.padding = rule, module.weight, module.padding_idx
        self.steps = [(ids, g * self._factor(ids, g)) for ids, g in steps]
        self.small = len(self.weight) <= _SMALL
        self.table: Tensor | None = None
        if self.small:
            grads = [self._dense(ids, g) for ids, g in steps]
            grads = [g * rule.scale((g * g).sum((1, 2)))[:, None, None] for g in grads]
            self.table = rule.change(grads, self.weight.detach())  # [T, V, H]

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

    def _factor(self, ids: Tensor, g: Tensor) -> Tensor | float:
        if not self.rule.clip or len(self.weight) <= _SMALL:
            return 1.0
        square = (self._same(ids, ids) * (g @ g.mT)).sum((1, 2))
        return self.rule.scale(square)[:, None, None]

    def __call__(self, x: Tensor, layout: Layout) -> Tensor:
        flat = x.flatten(1)  # [N, S]
        if self.table is not None:
            tasks = layout.of_rows(torch.arange(len(self.table), device=x.device), len(x))
            at = flat + len(self.weight) * tasks[:, None]
            return embedding(at, self.table.flatten(0, 1)).view(*x.shape, -1)
        grads = [
            self._same(flat, layout.of_rows(ids, len(x))) @ layout.of_rows(g, len(x)).to(self.weight.dtype)
            for ids, g in self.steps
        ]  # [N, S, H] each
        return self.rule.change(grads, embedding(flat, self.weight.detach())).view(*x.shape, -1)
