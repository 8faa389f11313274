"""What the gradient steps of a task add to the output of a layer, without a copy of its weights for the task.

One class for each kind of layer. Each keeps, for every step, the inputs of the layer and the gradients of its outputs,
by task. Shapes: ``T`` tasks, ``P`` positions of a task's supports, ``N`` rows of a batch that the new weights are
applied to, ``S`` positions of a row. Rows of a task that lie together are treated as one long row, so that nothing of a
task is copied for each of its rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, layer_norm

from nershift.methods.metacross.batched_adaptation.layout import Layout
from nershift.methods.metacross.inner_update import StepRule

_SMALL = 1024  # rows of a table whose gradient is formed for every task


class LayerChange(ABC):
    @abstractmethod
    def add(self, inputs: Tensor, grads: Tensor) -> None:
        """One more step of every task: the layer's inputs and the gradients of its outputs, [T, P, ...]."""

    @abstractmethod
    def __call__(self, out: Tensor, x: Tensor, layout: Layout) -> Tensor:
        """What the tasks' layers make of ``x [N, ..., in]``; ``out`` is what the shared layer makes of it."""


def _is_trained(p: Tensor | None) -> bool:
    return p is not None and p.requires_grad


class _VectorChange:
    """The change of a bias or of a norm's scale, [T, H]."""

    def __init__(self, rule: StepRule) -> None:
        self.rule, self.grads = rule, list[Tensor]()

    def add(self, grad: Tensor, dtype: torch.dtype) -> None:
        if self.rule.clip:
            grad = grad * self.rule.clip_scale((grad * grad).sum(1, keepdim=True))
        self.grads.append(grad)
        self.change = self.rule.change(self.grads).to(dtype)


class LinearChange(LayerChange):
    """With SGD, W changes by Σ g aᵀ and the bias by Σ g over positions: applied as ``(x Aᵀ + 1) G``.

    With Adam the change of W is formed, used and dropped.
    """

    def __init__(self, module: nn.Linear, rule: StepRule, products: Products) -> None:
        self.rule, self.weight, self.products = rule, module.weight, products
        self.has_weight, has_bias = _is_trained(module.weight), _is_trained(module.bias)
        # Clipping scales weight and bias differently. Without it the bias is the 1 in `x Aᵀ + 1`.
        self.with_bias = has_bias and self.has_weight and rule.low_rank and not rule.clip
        self.bias = _VectorChange(rule) if has_bias and not self.with_bias else None
        self.steps: list[tuple[Tensor, Tensor, Tensor | None]] = []  # A, G, clipping factor [T, 1, 1]

    def add(self, inputs: Tensor, grads: Tensor) -> None:
        if self.has_weight:
            self.steps.append((inputs, grads, self._clip_factor(inputs, grads) if self.rule.clip else None))
        if self.bias is not None:
            self.bias.add(grads.sum(1), grads.dtype)

    def _clip_factor(self, a: Tensor, g: Tensor) -> Tensor:
        """The norm of Σ g aᵀ comes from inner products of positions."""
        squared_norm = ((a @ a.mT) * (g @ g.mT)).sum((1, 2))
        return self.rule.clip_scale(squared_norm)[:, None, None].to(g.dtype)

    def __call__(self, out: Tensor, x: Tensor, layout: Layout) -> Tensor:
        result = layout.folded(out)
        if self.steps and self.rule.low_rank:
            for a, g, factor in self.steps:
                products = self.products(x, a, layout, float(self.with_bias))  # [T, S, P]
                if factor is not None:
                    products = products * layout.of_folded(factor, len(x))
                result = _add_product(result, products, layout.of_folded(g, len(x)), -self.rule.rate)
        elif self.steps:
            form = lambda: layout.of_folded(self._formed(), len(x))  # noqa: E731 - called again in backward
            result = result + _FormedProduct.apply(layout.folded(x), form).to(out.dtype)
        if self.bias is not None:
            result = result + layout.of_folded(self.bias.change, len(x))[:, None]
        return result.view(out.shape)

    def _formed(self) -> Tensor:
        """[T, out, in], in the precision of the gradients: products are summed in single precision or better."""
        grads = [g.mT @ a if factor is None else (g.mT @ a) * factor for a, g, factor in self.steps]
        return self.rule.change(grads, self.weight.detach())


def _add_product(out: Tensor, left: Tensor, right: Tensor, rate: float) -> Tensor:
    """``out + rate · left @ right``, in place unless a backward pass needs ``out``."""
    if out.requires_grad or left.requires_grad:
        return torch.baddbmm(out, left, right, alpha=rate)
    return out.baddbmm_(left, right, alpha=rate)


class _FormedProduct(torch.autograd.Function):
    """``x ΔWᵀ`` for a ΔW that is formed when needed, in the backward pass a second time, and never kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, form: Callable[[], Tensor]) -> Tensor:
        ctx.form, ctx.dtype = form, x.dtype
        change = form()
        return torch.bmm(x.to(change.dtype), change.mT)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        change = ctx.form()
        return torch.bmm(grad.to(change.dtype), change).to(ctx.dtype), None


class Products:
    """``x Aᵀ``, cached for the next layer: query, key and value projections have the same inputs."""

    def __init__(self) -> None:
        self._cache: list[tuple[Tensor, Tensor, float, Tensor]] = []

    def __call__(self, x: Tensor, a: Tensor, layout: Layout, constant: float) -> Tensor:
        """[T, S, P], plus ``constant``: what each position adds to the bias."""
        for cached_x, cached_a, cached_constant, product in self._cache:
            if cached_x is x and cached_a is a and cached_constant == constant:
                return product
        if self._cache and self._cache[0][0] is not x:
            self._cache = []
        product = layout.folded(x).to(a.dtype) @ layout.of_folded(a, len(x)).mT
        product = product + constant if constant else product
        self._cache.append((x, a, constant, product))
        return product

    def clear(self) -> None:
        self._cache = []


class NormChange(LayerChange):
    def __init__(self, module: nn.LayerNorm, rule: StepRule) -> None:
        self.module = module
        self.scale = _VectorChange(rule) if _is_trained(module.weight) else None
        self.shift = _VectorChange(rule) if _is_trained(module.bias) else None

    def add(self, inputs: Tensor, grads: Tensor) -> None:
        if self.scale is not None:
            self.scale.add((grads * self._normalised(inputs)).sum(1), grads.dtype)
        if self.shift is not None:
            self.shift.add(grads.sum(1), grads.dtype)

    def _normalised(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.module.normalized_shape, eps=self.module.eps)

    def __call__(self, out: Tensor, x: Tensor, layout: Layout) -> Tensor:
        result = layout.folded(out)
        if self.scale is not None:
            normalised = layout.folded(self._normalised(x)).to(out.dtype)
            result = torch.addcmul(result, normalised, layout.of_folded(self.scale.change, len(x))[:, None])
        if self.shift is not None:
            result = result + layout.of_folded(self.shift.change, len(x))[:, None]
        return result.view(out.shape)


class EmbeddingChange(LayerChange):
    """The gradient of a small table is formed; of a large one, only the rows that are looked up."""

    def __init__(self, module: nn.Embedding, rule: StepRule) -> None:
        self.rule, self.weight, self.padding = rule, module.weight, module.padding_idx
        self.small = len(self.weight) <= _SMALL
        self.steps: list[tuple[Tensor, Tensor]] = []  # of a large table: ids [T, P] and gradients [T, P, H]
        self.grads: list[Tensor] = []  # of a small one: [T, V, H] each
        self.table: Tensor | None = None

    def add(self, inputs: Tensor, grads: Tensor) -> None:
        if not self.small:
            self.steps.append((inputs, grads * self._clip_factor(inputs, grads) if self.rule.clip else grads))
            return
        dense = self._dense(inputs, grads)
        if self.rule.clip:
            dense = dense * self.rule.clip_scale((dense * dense).sum((1, 2)))[:, None, None]
        self.grads.append(dense)
        self.table = self.rule.change(self.grads, self.weight.detach())  # [T, V, H]

    def _dense(self, ids: Tensor, grads: Tensor) -> Tensor:
        tasks, rows = len(ids), len(self.weight)
        at = ids + rows * torch.arange(tasks, device=ids.device)[:, None]  # [T, P]
        out = grads.new_zeros(tasks * rows, grads.shape[-1]).index_add_(0, at.flatten(), grads.flatten(0, 1))
        out = out.view(tasks, rows, -1)
        if self.padding is not None:
            out[:, self.padding] = 0
        return out

    def _same_row(self, left: Tensor, right: Tensor) -> Tensor:
        """1 where two positions look up the same row; [N, S] and [N, P] → [N, S, P]."""
        same = left[:, :, None] == right[:, None]
        if self.padding is not None:
            same = same & (left != self.padding)[:, :, None]
        return same.to(self.weight.dtype)

    def _clip_factor(self, ids: Tensor, grads: Tensor) -> Tensor:
        squared_norm = (self._same_row(ids, ids) * (grads @ grads.mT)).sum((1, 2))
        return self.rule.clip_scale(squared_norm)[:, None, None]

    def __call__(self, out: Tensor, x: Tensor, layout: Layout) -> Tensor:
        return out + self._changes_of(x.flatten(1), layout).view(out.shape).to(out.dtype)

    def _changes_of(self, ids: Tensor, layout: Layout) -> Tensor:
        """[N, S] → [N, S, H]"""
        rows = len(ids)
        if self.table is not None:
            tasks = layout.of_rows(torch.arange(len(self.table), device=ids.device), rows)
            return embedding(ids + len(self.weight) * tasks[:, None], self.table.flatten(0, 1))
        grads = [
            self._same_row(ids, layout.of_rows(step_ids, rows)) @ layout.of_rows(g, rows).to(self.weight.dtype)
            for step_ids, g in self.steps
        ]  # [N, S, H] each
        return self.rule.change(grads, embedding(ids, self.weight.detach()))
