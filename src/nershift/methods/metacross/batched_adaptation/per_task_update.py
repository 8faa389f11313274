"""The inner update of many tasks at once, exactly, without a copy of the weights for each.

A step changes a linear layer by a sum of outer products of its inputs and the gradients of its outputs. Both come from
one forward and one backward pass over the supports of all tasks, and the changed layer can be applied to a query
without forming its weight. After n steps it is the shared weight plus n such terms. Norms, biases and embeddings are
treated alike. Adam's steps have full rank: there the change of a layer is formed where it is used, and dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from nershift.methods.metacross.batched_adaptation.layer_changes import (
    EmbeddingChange,
    LayerChange,
    LinearChange,
    NormChange,
    Products,
)
from nershift.methods.metacross.batched_adaptation.layout import Layout
from nershift.methods.metacross.inner_update import StepRule

_Layer = nn.Linear | nn.LayerNorm | nn.Embedding


def uncovered(model: nn.Module) -> list[str]:
    """Trained parameters that are in no linear layer, layer norm or embedding: they have no batched step."""
    covered = {id(p) for m in model.modules() if isinstance(m, _Layer) for p in m.parameters(recurse=False)}
    return [name for name, p in model.named_parameters() if p.requires_grad and id(p) not in covered]


class PerTaskUpdate:
    """Tasks that have each taken gradient steps of their own from the weights of ``model``.

    Example::

        with PerTaskUpdate(model, rule) as update:
            update.step(lambda: losses(model, supports).sum(), support_layout)
            with update.applied(query_layout):
                out = model(queries)  # each row by the weights of its task

    What is computed inside ``applied`` has gradients. With respect to the shared weights they are the first-order
    meta-gradients (eq. 12), summed over tasks.
    """

    def __init__(self, model: nn.Module, rule: StepRule) -> None:
        self.model, self.rule = model, rule
        self.layers = [
            m
            for m in model.modules()
            if isinstance(m, _Layer) and any(p.requires_grad for p in m.parameters(recurse=False))
        ]
        self._changes: dict[nn.Module, LayerChange] = {}
        self._layout: Layout | None = None
        self._calls: list[tuple[_Layer, Tensor, Tensor]] | None = None  # layer, inputs, outputs; while recording
        self._products = Products()
        self._undo: list[Callable[[], Any]] = []

    def __enter__(self) -> PerTaskUpdate:
        for layer in self.layers:
            self._undo.append(layer.register_forward_hook(self._after_layer).remove)
            if isinstance(layer, nn.Embedding):
                self._undo.append(layer.register_forward_pre_hook(self._before_embedding).remove)
        for module in self.model.modules():
            if hasattr(module, "compute_position_bias"):
                self._undo.append(_position_bias_by_row(module))
        return self

    def __exit__(self, *error: object) -> None:
        for undo in self._undo:
            undo()
        self._undo = []
        self._changes = {}

    @contextmanager
    def applied(self, layout: Layout) -> Iterator[None]:
        """Inside the block, batches have the rows of ``layout``, and each row meets the weights of its task."""
        self._layout = layout
        try:
            yield
        finally:
            self._layout = None
            self._products.clear()

    def step(self, loss: Callable[[], Tensor], layout: Layout) -> None:
        """One gradient step of every task (eq. 8).

        Args:
            loss: the sum of the losses of all rows, computed with the model. A row that several tasks share counts in
                each of them, which is right in the first step only.
            layout: the rows of each task.
        """
        self._calls = []
        with torch.enable_grad(), self.applied(layout):
            total = loss()
        calls, self._calls = self._calls, None
        grads = torch.autograd.grad(total, [outputs for _, _, outputs in calls], allow_unused=True)
        with torch.no_grad():
            self._add(calls, grads, layout)

    def _add(
        self, calls: list[tuple[_Layer, Tensor, Tensor]], grads: tuple[Tensor | None, ...], layout: Layout
    ) -> None:
        """Give each layer the inputs and output gradients of this step, by task."""
        by_layer: dict[_Layer, list[tuple[Tensor, Tensor]]] = {}
        last: tuple[Tensor, Tensor] | None = None  # layers with the same inputs share them by task
        for (layer, inputs, _), grad in zip(calls, grads, strict=True):
            if grad is None:
                continue
            # A linear layer multiplies in the precision of its output; so must its change.
            dtype = grad.dtype if isinstance(layer, nn.Linear) else inputs.dtype
            if last is None or inputs is not last[0] or last[1].dtype != dtype:
                x = inputs.detach().to(dtype)
                ids = isinstance(layer, nn.Embedding)
                flat = x.flatten(1) if ids else x.flatten(1, -2) if x.ndim > 2 else x[:, None]
                last = inputs, layout.of_tasks(flat, zero=False)
            flat_grad = grad.flatten(1, -2) if grad.ndim > 2 else grad[:, None]
            by_layer.setdefault(layer, []).append((last[1], layout.of_tasks(flat_grad)))
        for layer, parts in by_layer.items():
            if layer not in self._changes:
                self._changes[layer] = self._new_change(layer)
            inputs, grad = (x[0] if len(x) == 1 else torch.cat(x, 1) for x in zip(*parts, strict=True))
            self._changes[layer].add(inputs, grad)

    def _new_change(self, layer: _Layer) -> LayerChange:
        if isinstance(layer, nn.Linear):
            return LinearChange(layer, self.rule, self._products)
        if isinstance(layer, nn.LayerNorm):
            return NormChange(layer, self.rule)
        return EmbeddingChange(layer, self.rule)

    def _after_layer(self, layer: Any, args: tuple[Tensor, ...], outputs: Tensor) -> Tensor:
        if self._layout is None:
            return outputs
        if layer in self._changes:
            outputs = self._changes[layer](outputs, args[0], self._layout)
        if self._calls is not None:
            self._calls.append((layer, args[0], outputs))
        return outputs

    def _before_embedding(self, layer: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Look up positions for each row, not once for the batch: then each row has a gradient of its own."""
        ids = args[0]
        if self._layout is None or (ids.ndim > 1 and len(ids) == self._layout.windows):
            return args
        return (ids.expand(self._layout.windows, *ids.shape[-1:]), *args[1:])


def _position_bias_by_row(module: Any) -> Callable[[], None]:
    """Let MPNet look up its relative positions for each row, too."""

    def by_row(x: Tensor, position_ids: Tensor | None = None, num_buckets: int = 32) -> Tensor:
        at = torch.arange(x.shape[1], device=x.device)
        buckets = module.relative_position_bucket(at[None] - at[:, None], num_buckets=num_buckets)  # [S, S]
        values = module.relative_attention_bias(buckets.expand(len(x), -1, -1))  # [N, S, S, heads]
        return values.permute(0, 3, 1, 2).contiguous()

    module.compute_position_bias = by_row
    return lambda: delattr(module, "compute_position_bias")
