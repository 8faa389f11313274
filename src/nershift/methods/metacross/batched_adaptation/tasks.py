"""Many tasks' gradient steps at once, exactly, without a copy of the weights for each.

A step changes a linear layer by a sum of outer products of what it read and the gradient of what it said. Both come
from one forward and one backward pass over all supports together, and the changed layer can be applied to a task's
query without building its weight. After n steps it is still the shared weight plus n such terms. Norms, biases and
tables are treated alike; for Adam, whose steps have full rank, a layer's change is formed where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from nershift.methods.metacross.batched_adaptation.changes import Change, LinearChange, NormChange, Scores, TableChange
from nershift.methods.metacross.batched_adaptation.layout import Layout
from nershift.methods.metacross.batched_adaptation.step_rule import StepRule

_KINDS = (nn.Linear, nn.LayerNorm, nn.Embedding)


def uncovered(model: nn.Module) -> list[str]:
    """Trained parameters that are in no linear layer, layer norm or embedding."""
    covered = {id(p) for m in model.modules() if isinstance(m, _KINDS) for p in m.parameters(recurse=False)}
    return [name for name, p in model.named_parameters() if p.requires_grad and id(p) not in covered]


class PerTaskUpdate:
    """Tasks that have each taken gradient steps of their own from the weights of ``model``.

    Example::

        with PerTaskUpdate(model, rule) as ghost:
            ghost.step(lambda: losses(model, supports).sum(), support_layout)
            with ghost.reading(query_layout):
                out = model(queries)  # each row by the weights of its task

    What is computed while reading has gradients: with respect to the shared weights they are the first-order
    meta-gradient, summed over tasks.
    """

    def __init__(self, model: nn.Module, rule: StepRule) -> None:
        self.model, self.rule = model, rule
        self.layers = [
            m
            for m in model.modules()
            if isinstance(m, _KINDS) and any(p.requires_grad for p in m.parameters(recurse=False))
        ]
        self._changes: dict[nn.Module, Change] = {}
        self._layout: Layout | None = None
        self._record: dict[nn.Module, list[tuple[Tensor, Tensor]]] | None = None
        self._scores = Scores()
        self._undo: list[Callable[[], Any]] = []

    def __enter__(self) -> PerTaskUpdate:
        for layer in self.layers:
            self._undo.append(layer.register_forward_hook(self._after).remove)
            if isinstance(layer, nn.Embedding):
                self._undo.append(layer.register_forward_pre_hook(self._before_table).remove)
        for module in self.model.modules():
            if hasattr(module, "compute_position_bias"):
                self._undo.append(_bias_by_row(module))
        return self

    def __exit__(self, *error: object) -> None:
        for undo in self._undo:
            undo()
        self._undo = []
        self._changes = {}

    @contextmanager
    def reading(self, layout: Layout) -> Iterator[None]:
        """While it lasts, the rows of a batch are those of ``layout`` and each is read by its task's weights."""
        self._layout = layout
        try:
            yield
        finally:
            self._layout = None
            self._scores.clear()

    def step(self, loss: Callable[[], Tensor], layout: Layout) -> None:
        """One gradient step of every task.

        Args:
            loss: the sum of the losses of all rows, computed with the model. A row that serves several tasks
                counts in each of them, which only the first step can have.
            layout: the rows of each task.
        """
        self._record = {}
        with torch.enable_grad(), self.reading(layout):
            total = loss()
        record, self._record = self._record, None
        calls = [(layer, *call) for layer, made in record.items() for call in made]
        grads = torch.autograd.grad(total, [out for _, _, out in calls], allow_unused=True)
        with torch.no_grad():
            self._keep(calls, grads, layout)

    def _keep(self, calls: list[Any], grads: tuple[Tensor | None, ...], layout: Layout) -> None:
        new: dict[nn.Module, list[tuple[Tensor, Tensor]]] = {}
        last: tuple[Any, Tensor | None] = (None, None)  # layers that read the same share its rows
        for (layer, read, _), grad in zip(calls, grads, strict=True):
            if grad is None:
                continue
            # A linear layer multiplied in the precision of its output; so do we, with what it read.
            dtype = grad.dtype if isinstance(layer, nn.Linear) else read.dtype
            if last[1] is None or read is not last[0] or last[1].dtype != dtype:
                x = read.detach().to(dtype)
                table = isinstance(layer, nn.Embedding)
                wide = x.flatten(1) if table else x.flatten(1, -2) if x.ndim > 2 else x[:, None]
                last = read, layout.of_tasks(wide, zero=False)
            assert last[1] is not None
            given = grad.flatten(1, -2) if grad.ndim > 2 else grad[:, None]
            new.setdefault(layer, []).append((last[1], layout.of_tasks(given)))
        for layer, parts in new.items():
            joint = parts[0] if len(parts) == 1 else tuple(torch.cat(x, 1) for x in zip(*parts, strict=True))
            if layer not in self._changes:
                self._changes[layer] = self._change(layer)
            self._changes[layer].add(*joint)

    def _change(self, layer: nn.Module) -> Change:
        if isinstance(layer, nn.Linear):
            return LinearChange(layer, self.rule, self._scores)
        if isinstance(layer, nn.LayerNorm):
            return NormChange(layer, self.rule)
        assert isinstance(layer, nn.Embedding)
        return TableChange(layer, self.rule)

    def _after(self, layer: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> Tensor:
        if self._layout is None:
            return out
        read = given[0]
        if layer in self._changes:
            out = self._changes[layer](out, read, self._layout)
        if self._record is not None:
            self._record.setdefault(layer, []).append((read, out))
        return out

    def _before_table(self, layer: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Positions looked up once for all rows are looked up for each, so that each has a gradient."""
        ids = given[0]
        if self._layout is None or (ids.ndim > 1 and len(ids) == self._layout.windows):
            return given
        return (ids.expand(self._layout.windows, *ids.shape[-1:]), *given[1:])


def _bias_by_row(module: Any) -> Callable[[], None]:
    """MPNet looks its relative positions up once for the batch; let it do so for each row."""

    def by_row(x: Tensor, position_ids: Tensor | None = None, num_buckets: int = 32) -> Tensor:
        at = torch.arange(x.shape[1], device=x.device)
        buckets = module.relative_position_bucket(at[None] - at[:, None], num_buckets=num_buckets)  # [S, S]
        values = module.relative_attention_bias(buckets.expand(len(x), -1, -1))  # [N, S, S, heads]
        return values.permute(0, 3, 1, 2).contiguous()

    module.compute_position_bias = by_row
    return lambda: delattr(module, "compute_position_bias")
