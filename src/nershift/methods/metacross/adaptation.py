"""Adaptation (Algorithm 1, lines 14-20): a step on the supports of each sentence; tag it; undo the step."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from nershift.data.spans import Sentence, Span
from nershift.errors import ConfigError
from nershift.methods.metacross.batched_adaptation.layout import Layout, windows
from nershift.methods.metacross.batched_adaptation.memory import is_out_of_memory, task_bytes
from nershift.methods.metacross.batched_adaptation.per_task_update import PerTaskUpdate, uncovered
from nershift.methods.metacross.inner_update import inner_update
from nershift.methods.metacross.options import MetaCrossOptions
from nershift.methods.metacross.token_classifier import labelled_batch, sentence_losses
from nershift.model import TaggingModel
from nershift.text.subwords import Pieces

log = logging.getLogger(__name__)
_MOST = 256  # sentences at once, however much memory there is
_BUCKET = 16  # sub-words: supports whose lengths differ by less count as equally long


class Adaptation:
    """Predicts sentences, each with weights that took one step on its own supports.

    There is no dropout in the step, unlike in the released code: the result would depend on chance.

    Args:
        key: the head.
        batched: adapt many sentences at once. The results are those of the plain loop.
    """

    def __init__(self, model: TaggingModel, key: str, options: MetaCrossOptions, batched: bool = True) -> None:
        self.model, self.key, self.options = model, key, options
        self.rule = options.step_rule(options.adapt_lr)
        odd = uncovered(model) if batched else []
        if odd:
            log.warning("adapting one sentence at a time: no batched step for %s", ", ".join(odd[:3]))
        self.batched = batched and not odd

    def predict(
        self, queries: Sequence[Sentence], supports: Sequence[Sentence], tasks: Sequence[Sequence[int]]
    ) -> list[Sentence]:
        """The queries with predicted spans; ``tasks`` are the numbers of each query's supports."""
        rows = [i for i, query in enumerate(queries) if len(query)]
        run = self._many_at_once if self.batched else self._one_by_one
        was_training = self.model.training
        self.model.eval()
        try:
            spans = run([queries[i] for i in rows], supports, [tasks[i] for i in rows])
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise ConfigError(
                "adapting to one sentence does not fit into memory",
                place="options.memory",
                fix="use a smaller encoder, or fewer neighbours",
            ) from None
        finally:
            self.model.train(was_training)
        out = [query.with_spans(()) for query in queries]
        for i, entities in zip(rows, spans, strict=True):
            out[i] = queries[i].with_spans(entities)
        return out

    def _one_by_one(
        self, queries: Sequence[Sentence], supports: Sequence[Sentence], tasks: Sequence[Sequence[int]]
    ) -> list[list[Span]]:
        """The plain version, as the paper prints it."""
        model, out = self.model, list[list[Span]]()
        for query, task in zip(queries, tasks, strict=True):
            support = labelled_batch(model, self.key, [supports[s] for s in task])  # line 16
            batch = model.batch(self.key, [query], [model.encoder.prepare(query.tokens)])
            with self._autocast(), inner_update(model, self.rule, 1, support), torch.no_grad():  # line 17
                out += model.spans(batch, confidence=True)  # line 18
        return out

    def _many_at_once(
        self, queries: Sequence[Sentence], supports: Sequence[Sentence], tasks: Sequence[Sequence[int]]
    ) -> list[list[Span]]:
        """Groups of sentences that fit into memory; smaller groups once it was short."""
        prepared: dict[int, Pieces] = {
            s: self.model.encoder.prepare(supports[s].tokens) for s in {s for task in tasks for s in task}
        }
        subwords = {s: sum(map(len, pieces.ids)) for s, pieces in prepared.items()}
        longest = [max((subwords[s] for s in task), default=0) for task in tasks]
        # Supports are most of the work, so theirs are the lengths that should be alike; then those of the queries.
        waiting = sorted(range(len(queries)), key=lambda i: (longest[i] // _BUCKET, len(queries[i])))
        out, limit = dict[int, list[Span]](), _MOST
        while waiting:
            group = waiting[: self._group_size([len(tasks[i]) * longest[i] for i in waiting[:limit]])]
            try:
                with self._autocast():
                    spans = self._group([queries[i] for i in group], supports, [tasks[i] for i in group], prepared)
            except RuntimeError as error:
                if len(group) == 1 or not is_out_of_memory(error):
                    raise
                limit = len(group) // 2
                continue
            out.update(zip(group, spans, strict=True))
            waiting = waiting[len(group) :]
        return [out[i] for i in range(len(queries))]

    def _group(
        self,
        queries: Sequence[Sentence],
        supports: Sequence[Sentence],
        tasks: Sequence[Sequence[int]],
        prepared: Mapping[int, Pieces],
    ) -> list[list[Span]]:
        model, device = self.model, self.model.device
        pieces: list[Pieces] = [model.encoder.prepare(q.tokens) for q in queries]
        query = model.batch(self.key, queries, pieces)
        # Gradients of one step add up over supports: a support that several queries share is run once.
        used = sorted({s for task in tasks for s in task})
        row = {s: n for n, s in enumerate(used)}
        support_pieces = [prepared[s] for s in used]
        support = labelled_batch(model, self.key, [supports[s] for s in used], support_pieces)
        rows = Layout(windows(support_pieces), [[row[s] for s in task] for task in tasks], device)
        with PerTaskUpdate(model, self.rule) as update:
            update.step(lambda: sentence_losses(model, support).sum(), rows)
            with torch.no_grad(), update.applied(Layout.one_each(windows(pieces), device)):
                return model.spans(query, confidence=True)

    def _autocast(self) -> AbstractContextManager[Any]:
        half = self.options.adapt_precision == "bf16"
        return torch.autocast(self.model.device.type, torch.bfloat16) if half else nullcontext()

    def _group_size(self, positions: Sequence[int]) -> int:
        """How many of the next sentences fit, given the positions of their supports; the longest decides."""
        longest = size = each = 0
        for count in positions:
            if count > longest:
                longest, each = count, task_bytes(self.model, self.rule, count, self.options.adapt_precision)
            if size and (size + 1) * each > self.options.memory * 2**30:
                break
            size += 1
        return size
