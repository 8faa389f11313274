"""A head that scores spans instead of tags: every span up to a width, from its first and its last token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from nershift.config import setting
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence, Span
from nershift.errors import DataError, nearest
from nershift.heads.base import Head, Targets, register, widened

_RARE = -4.0  # where the score of a span starts: nearly all spans are no entity


@dataclass(frozen=True)
class SpanSettings:
    max_width: int = setting(10, "widest entity that can be predicted, in tokens", low=1)
    hidden: int = setting(128, "units of the layer that joins first token, last token and width", low=1)
    overlapping: bool = setting(False, "predict entities that overlap or lie inside each other")


@register("span")
class SpanHead(Head):
    """Each pair of a span and a type is a yes-or-no question of its own.

    The flat answer takes spans with a probability above one half, the most probable first, and skips those that overlap
    one already taken. With ``overlapping`` it takes them all.

    Example:
        >>> head = SpanHead(["LOC"], size=4, settings=SpanSettings(max_width=2))
        >>> head.targets(Sentence.of(["in", "New", "York"], [(1, 3, "LOC")])).shape  # tokens, widths, types
        (3, 2, 1)
        >>> head.predict(torch.zeros(1, 3, 4), torch.ones(1, 3).bool())
        [[]]
    """

    Settings = SpanSettings
    overlap_settings = "--set head.kind=span --set head.options.overlapping=true"
    cuda_graph_safe = True

    def __init__(self, types: Sequence[str], size: int, settings: SpanSettings) -> None:
        super().__init__(types)
        self.settings, self.overlapping = settings, settings.overlapping
        self.first = nn.Linear(size, settings.hidden)
        self.last = nn.Linear(size, settings.hidden, bias=False)
        self.width = nn.Embedding(settings.max_width, settings.hidden)
        self.project = nn.Linear(settings.hidden, len(self.types))
        nn.init.constant_(self.project.bias, _RARE)
        self._index = {label: i for i, label in enumerate(self.types)}

    @classmethod
    def new(cls, space: LabelSpace, size: int, settings: SpanSettings) -> Head:
        return cls(space.types, size, settings)

    @classmethod
    def allows_overlaps(cls, settings: SpanSettings) -> bool:
        return settings.overlapping

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"settings": asdict(self.settings)}

    def targets(self, sentence: Sentence) -> Targets:
        """1 for each entity, at its first token, its width and its type: [L, W, C]. Wider ones are out of reach."""
        made = np.zeros((len(sentence), self.settings.max_width, len(self.types)), dtype=np.float32)
        if sentence.nested and not self.overlapping:
            raise DataError(
                "this head was not told that entities may overlap",
                place=sentence.place,
                expected="flat entities",
                fix="--set head.options.overlapping=true",
            )
        for span in sentence.spans:
            if span.label not in self._index:
                raise DataError(
                    f"entity type '{span.label}' is not in the label set{nearest(span.label, self.types)}",
                    place=sentence.place,
                    expected=", ".join(self.types),
                    fix="rename it, or train with a label set that has it",
                )
            if span.end - span.start <= self.settings.max_width:
                made[span.start, span.end - span.start - 1, self._index[span.label]] = 1.0
        return made

    def scores(self, states: Tensor) -> Tensor:
        """Log odds of every span and type: [B, L, H] → [B, L, W, C]; spans past the end are meaningless."""
        first, last = self.first(states), self.last(states)  # [B, L, D]
        padded = functional.pad(last, (0, 0, 0, self.settings.max_width - 1))
        ends = padded.unfold(1, self.settings.max_width, 1).transpose(2, 3)  # [B, L, W, D]: token i + w
        joined = torch.tanh(first[:, :, None] + ends + self.width.weight)
        return widened(self.project(joined))

    def _inside(self, mask: Tensor) -> Tensor:
        """Which spans end inside their sentence, [B, L, W]."""
        padded = functional.pad(mask, (0, self.settings.max_width - 1))
        return padded.unfold(1, self.settings.max_width, 1)

    def loss(self, states: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
        scores = self.scores(states)
        losses = functional.binary_cross_entropy_with_logits(scores, targets.to(scores), reduction="none").sum(-1)
        return losses.masked_fill(~self._inside(mask), 0.0).sum((1, 2))

    @torch.no_grad()
    def predict(self, states: Tensor, mask: Tensor) -> list[list[Span]]:
        scores = self.scores(states)
        hits = ((scores > 0) & self._inside(mask)[..., None]).nonzero()  # [N, 4]
        rows: list[list[tuple[float, Span]]] = [[] for _ in range(len(mask))]
        values = scores[tuple(hits.T)].tolist()
        for (row, start, width, label), value in zip(hits.tolist(), values, strict=True):
            rows[row].append((value, Span(start, start + width + 1, self.types[label])))
        return [sorted(span for _, span in found) if self.overlapping else flat(found) for found in rows]

    @torch.no_grad()
    def confidences(self, states: Tensor, mask: Tensor, spans: Sequence[Sequence[Span]]) -> list[list[float]]:
        chances = torch.sigmoid(self.scores(states) / self.temperature).cpu()
        return [[self._chance(row, span) for span in row_spans] for row, row_spans in zip(chances, spans, strict=True)]

    def _chance(self, chances: Tensor, span: Span) -> float:
        width = span.end - span.start - 1
        if width >= self.settings.max_width or span.label not in self._index:
            return 0.0
        return float(chances[span.start, width, self._index[span.label]])

    @torch.no_grad()
    def start_from(self, other: Head, mapping: Mapping[str, str]) -> bool:
        """The layers that read spans, and the rows of the types that mean the same."""
        if not isinstance(other, SpanHead) or _shape(other) != _shape(self):
            return False
        for part in ("first", "last", "width"):
            getattr(self, part).load_state_dict(getattr(other, part).state_dict())
        for ours, theirs in mapping.items():
            row, source = self._index[ours], other._index[theirs]
            self.project.weight[row] = other.project.weight[source].to(self.project.weight)
            self.project.bias[row] = other.project.bias[source].to(self.project.bias)
        self.kept_rows = dict(mapping)
        return True

    def out_of_reach(self, sentences: Sequence[Sentence]) -> str:
        widths = [span.end - span.start for s in sentences for span in s.spans]
        lost = sum(width > self.settings.max_width for width in widths)
        if not lost:
            return ""
        return (
            f"{lost} of {len(widths)} training entities are wider than head.options.max_width "
            f"({self.settings.max_width} tokens; the widest has {max(widths)}): this head cannot learn or predict them."
        )


def flat(candidates: Sequence[tuple[float, Span]]) -> list[Span]:
    """The best-scored spans that do not overlap, greedily.

    Example:
        >>> flat([(0.9, Span(0, 2, "A")), (2.0, Span(1, 3, "B")), (0.1, Span(3, 4, "A"))])
        [Span(start=1, end=3, label='B', score=None), Span(start=3, end=4, label='A', score=None)]
    """
    taken: list[Span] = []
    for _, span in sorted(candidates, key=lambda one: (-one[0], one[1])):
        if all(span.end <= other.start or other.end <= span.start for other in taken):
            taken.append(span)
    return sorted(taken)


def _shape(head: SpanHead) -> tuple[int, ...]:
    return head.settings.max_width, head.settings.hidden, head.first.in_features
