"""A model adapted to each sentence by a step on that sentence's own supports, one by one or many at once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from nershift.data.spans import Sentence, Span
from nershift.errors import ConfigError
from nershift.nn.ghost import Ghost, uncovered
from nershift.nn.ghost_layout import Layout
from nershift.nn.model import Batch, TaggingModel
from nershift.nn.softmax import SoftmaxDecoder
from nershift.nn.step_rule import StepRule
from nershift.nn.token_loss import mean_and_max, token_losses

log = logging.getLogger(__name__)
_MOST = 256  # sentences at once, however much memory there is


def sentence_losses(model: TaggingModel, batch: Batch, weight: float = 0.0) -> Tensor:
    """Eq. 3, or with λ = ``weight`` eq. 13, of each sentence; [B]."""
    decoder = model.decoder(batch.key)
    assert isinstance(decoder, SoftmaxDecoder)
    assert batch.tags is not None
    losses = token_losses(decoder, model.states(batch), batch.mask, batch.tags)
    return mean_and_max(losses, batch.mask, weight)


def trained(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


def windows(prepared: Sequence[object]) -> list[int]:
    """Rows that the encoder makes of each prepared sentence."""
    return [len(getattr(item, "ids", (0,))) for item in prepared]


def task_bytes(model: nn.Module, rule: StepRule, positions: int) -> int:
    """About what one task with so many support positions holds at once."""
    sizes = [p.shape for p in trained(model) if p.ndim == 2 and len(p) < 20_000]
    kept = sum(sum(size) for size in sizes) * positions * 2
    formed = 0 if rule.low_rank else 4 * max(size[0] * size[1] for size in sizes)
    return 4 * (kept + formed)


class Adapter:
    """Predicts sentences, each with weights that took one step on its own supports.

    Args:
        key: the decoder.
        rule: the step.
        memory: GiB that adapting many sentences at once may take; fewer are then adapted together.
        batched: take steps for many sentences at once. The results are those of the loop.
    """

    def __init__(
        self,
        model: TaggingModel,
        key: str,
        rule: StepRule,
        memory: float = 2.0,
        batched: bool = True,
    ) -> None:
        self.model, self.key, self.rule, self.memory = model, key, rule, memory
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
        out = [query.with_spans(()) for query in queries]
        order = sorted((i for i, q in enumerate(queries) if len(q)), key=lambda i: len(queries[i]))
        limit = _MOST if self.batched else 1
        while order:
            size = self._size(order, tasks, prepared, limit)
            part = order[:size]
            try:
                found = self._predict(
                    [queries[i] for i in part], supports, [tasks[i] for i in part], prepared
                )
            except RuntimeError as error:  # what CUDA and the CPU raise when memory is short
                if not _is_memory(error):
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

    def _size(
        self, order: Sequence[int], tasks: Sequence[Sequence[int]], prepared: dict[int, object], limit: int
    ) -> int:
        """How many of the next sentences fit; the longest support decides."""
        longest = size = 0
        for i in order[:limit]:
            pieces = [sum(map(len, getattr(prepared[s], "ids", ()))) for s in tasks[i]]
            longest = max(longest, len(pieces) * max(pieces))
            if size and (size + 1) * task_bytes(self.model, self.rule, longest) > self.memory * 2**30:
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
        with Ghost(model, self.rule) as ghost:
            ghost.step(lambda: sentence_losses(model, support).sum(), rows)
            with torch.no_grad(), ghost.reading(singles(ready, device)):
                return model.spans(query, confidence=True)


def singles(prepared: Sequence[object], device: torch.device) -> Layout:
    """A task a sentence."""
    return Layout(windows(prepared), [[n] for n in range(len(prepared))], device)


@contextmanager
def stepped(
    model: TaggingModel, rule: StepRule, steps: int, support: Batch, weight: float = 0.0
) -> Iterator[None]:
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
    for p in parameters:
        p.grad = None
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(list[Tensor](parameters), before)


def _is_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
