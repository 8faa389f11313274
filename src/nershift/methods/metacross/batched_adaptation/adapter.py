"""A model adapted to each sentence by a step on that sentence's own supports, one by one or many at once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn

from nershift.data.spans import Sentence, Span
from nershift.errors import ConfigError
from nershift.heads.softmax import SoftmaxHead
from nershift.methods.metacross.batched_adaptation.layout import Layout
from nershift.methods.metacross.batched_adaptation.step_rule import StepRule
from nershift.methods.metacross.batched_adaptation.tasks import PerTaskUpdate, uncovered
from nershift.methods.metacross.token_loss import mean_and_max, token_losses
from nershift.model import Batch, TaggingModel

log = logging.getLogger(__name__)
_MOST = 256  # sentences at once, however much memory there is
_BUCKET = 16  # sub-words by which the lengths of supports are told apart
Precision = Literal["fp32", "bf16"]


def sentence_losses(model: TaggingModel, batch: Batch, weight: float = 0.0) -> Tensor:
    """Eq. 3, or with λ = ``weight`` eq. 13, of each sentence; [B]."""
    head = model.head(batch.key)
    assert isinstance(head, SoftmaxHead)
    assert batch.tags is not None
    losses = token_losses(head, model.states(batch), batch.mask, batch.tags)
    return mean_and_max(losses, batch.mask, weight)


def trained(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


def windows(prepared: Sequence[object]) -> list[int]:
    """Rows that the encoder makes of each prepared sentence."""
    return [len(getattr(item, "ids", (0,))) for item in prepared]


def task_bytes(model: nn.Module, rule: StepRule, positions: int, precision: Precision = "fp32") -> int:
    """About what one task with so many support positions holds at once."""
    sizes = [p.shape for p in trained(model) if p.ndim == 2 and len(p) < 20_000]
    kept = sum(sum(size) for size in sizes) * positions * 2
    formed = 0 if rule.low_rank else 4 * max(size[0] * size[1] for size in sizes)
    return (4 if precision == "fp32" else 2) * (kept + formed)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether it is what CUDA or the CPU raises when memory is short."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


class Adapter:
    """Predicts sentences, each with weights that took one step on its own supports.

    Args:
        key: the head.
        rule: the step.
        memory: GiB that adapting many sentences at once may take; fewer are then adapted together.
        batched: take steps for many sentences at once. The results are those of the loop.
        precision: ``bf16`` multiplies in half precision; weights stay as they are.
    """

    def __init__(
        self,
        model: TaggingModel,
        key: str,
        rule: StepRule,
        memory: float = 2.0,
        batched: bool = True,
        precision: Precision = "fp32",
    ) -> None:
        self.model, self.key, self.rule, self.memory = model, key, rule, memory
        self.precision = precision
        odd = uncovered(model) if batched else []
        if odd:
            log.warning("adapting one sentence at a time: no batched step for %s", ", ".join(odd[:3]))
        self.batched = batched and not odd

    def predict(
        self, queries: Sequence[Sentence], supports: Sequence[Sentence], tasks: Sequence[Sequence[int]]
    ) -> list[Sentence]:
        """The queries with predicted spans; ``tasks`` are the numbers of each query's supports."""
        was_training = self.model.training
        self.model.eval()
        prepared = {i: self.model.encoder.prepare(supports[i].tokens) for i in {i for t in tasks for i in t}}
        pieces = {i: sum(map(len, getattr(item, "ids", ()))) for i, item in prepared.items()}
        longest = [max((pieces[s] for s in task), default=0) for task in tasks]
        out = [query.with_spans(()) for query in queries]
        # Sentences whose supports are about as long, since these are most of the work; then of like length.
        order = [i for i, query in enumerate(queries) if len(query)]
        order.sort(key=lambda i: (longest[i] // _BUCKET, len(queries[i])))
        limit = _MOST if self.batched else 1
        while order:
            size = self._size([len(tasks[i]) * longest[i] for i in order[:limit]])
            part = order[:size]
            try:
                with self._autocast():
                    found = self._predict([queries[i] for i in part], supports, [tasks[i] for i in part], prepared)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if size == 1:
                    raise ConfigError(
                        f"adapting one sentence of {len(queries[part[0]])} tokens does not fit into memory",
                        place="options.memory",
                        fix="use a smaller encoder, or fewer neighbours",
                    ) from None
                limit = size // 2
                continue
            for i, spans in zip(part, found, strict=True):
                out[i] = queries[i].with_spans(spans)
            order = order[size:]
        self.model.train(was_training)
        return out

    def _autocast(self) -> AbstractContextManager[Any]:
        half = self.precision == "bf16"
        return torch.autocast(self.model.device.type, torch.bfloat16) if half else nullcontext()

    def _size(self, positions: Sequence[int]) -> int:
        """How many of the next sentences fit, by positions of their supports; the longest decides."""
        longest = size = each = 0
        for count in positions:
            if count > longest:
                longest, each = count, task_bytes(self.model, self.rule, count, self.precision)
            if size and (size + 1) * each > self.memory * 2**30:
                break
            size += 1
        return size

    def _predict(
        self,
        queries: Sequence[Sentence],
        supports: Sequence[Sentence],
        tasks: Sequence[Sequence[int]],
        prepared: dict[int, object],
    ) -> list[list[Span]]:
        model, device = self.model, self.model.device
        ready = [model.encoder.prepare(q.tokens) for q in queries]
        query = model.batch(self.key, queries, ready)
        # One-step gradients add up over supports: a support of several queries is run once.
        used = sorted({s for task in tasks for s in task})
        at = {s: n for n, s in enumerate(used)}
        chosen = [supports[s] for s in used]
        tags = [model.encode_tags(self.key, s) for s in chosen]
        support = model.batch(self.key, chosen, [prepared[s] for s in used], tags)
        if not self.batched:
            with stepped(model, self.rule, 1, support), torch.no_grad():
                return model.spans(query, confidence=True)
        rows = Layout(windows([prepared[s] for s in used]), [[at[s] for s in task] for task in tasks], device)
        with PerTaskUpdate(model, self.rule) as ghost:
            ghost.step(lambda: sentence_losses(model, support).sum(), rows)
            with torch.no_grad(), ghost.reading(singles(ready, device)):
                return model.spans(query, confidence=True)


def singles(prepared: Sequence[object], device: torch.device) -> Layout:
    """A task a sentence."""
    return Layout(windows(prepared), [[n] for n in range(len(prepared))], device)


@contextmanager
def stepped(model: TaggingModel, rule: StepRule, steps: int, support: Batch, weight: float = 0.0) -> Iterator[None]:
    """While it lasts the model's weights are those after gradient steps on one task's supports."""
    parameters = trained(model)
    before = [p.detach().clone() for p in parameters]
    optimizer = rule.optimizer(parameters)
    for _ in range(steps):
        loss = sentence_losses(model, support, weight).sum()
        grads = torch.autograd.grad(loss, parameters, allow_unused=True)
        rule.clip_tensors(g for g in grads if g is not None)
        for p, grad in zip(parameters, grads, strict=True):
            p.grad = grad
        optimizer.step()
        torch.clear_autocast_cache()  # else it goes on with the weights of before the step
    for p in parameters:
        p.grad = None
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(list[Tensor](parameters), before)
        torch.clear_autocast_cache()
