"""A head that scores spans instead of tags: every span up to a width, from its first and its last token."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from nershift.config import setting
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence, Span
from nershift.errors import DataError, SetupError, nearest
from nershift.heads.base import Head, LabelledStates, Targets, register, widened
from nershift.heads.soft import SoftTargets

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
    row_starts = ("random", "prototypes")
    overlap_settings = "--set head.kind=span --set head.options.overlapping=true"
    cuda_graph_safe = True
    gives_soft = "spans"
    takes_soft = ("spans",)

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
        return widened(self.project(self.joined(states)))

    def joined(self, states: Tensor) -> Tensor:
        """First token, last token and width of every span in one vector: [B, L, H] → [B, L, W, D]."""
        first, last = self.first(states), self.last(states)  # [B, L, D]
        padded = functional.pad(last, (0, 0, 0, self.settings.max_width - 1))
        ends = padded.unfold(1, self.settings.max_width, 1).transpose(2, 3)  # [B, L, W, D]: token i + w
        return torch.tanh(first[:, :, None] + ends + self.width.weight)

    def _inside(self, mask: Tensor) -> Tensor:
        """Which spans end inside their sentence, [B, L, W]."""
        padded = functional.pad(mask, (0, self.settings.max_width - 1))
        return padded.unfold(1, self.settings.max_width, 1)

    def loss(self, states: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
        return self._losses(states, targets).sum(-1).masked_fill(~self._inside(mask), 0.0).sum((1, 2))

    def _answer_loss(self, states: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
        asked = self._losses(states, targets)[..., self._predicted()].sum(-1)
        return asked.masked_fill(~self._inside(mask), 0.0).sum((1, 2))

    @torch.no_grad()
    def soft_targets(self, states: Tensor, mask: Tensor, student: Head, temperature: float = 1.0) -> SoftTargets:
        """The probability of each span and type, ``[B, L, W, C]`` in the student's widths and types."""
        if not isinstance(student, SpanHead) or not set(student.types) <= set(self.types):
            raise SetupError("the student has types that this teacher does not know", place="options.teacher")
        chances = torch.sigmoid(self.scores(states) / (self.temperature * temperature))
        chances = chances.masked_fill(~self._inside(mask)[..., None], 0.0)
        hidden = [i for label, i in self._index.items() if label not in self.predicted_types]
        chances[..., hidden] = 0.0
        chances = chances[..., [self._index[label] for label in student.types]]
        width = student.settings.max_width
        chances = chances[:, :, :width]
        wider = (0, 0, 0, width - chances.shape[2])
        return SoftTargets.of_tokens(functional.pad(chances, wider))

    def soft_loss(self, states: Tensor, mask: Tensor, soft: SoftTargets) -> Tensor:
        """Each question is a distribution of its own, so the cross entropy is the sum of theirs."""
        return self.loss(states, mask, soft.tokens)

    def _losses(self, states: Tensor, targets: Tensor) -> Tensor:
        """Of each question, [B, L, W, C]."""
        scores = self.scores(states)
        return functional.binary_cross_entropy_with_logits(scores, targets.to(scores), reduction="none")

    def _predicted(self) -> list[int]:
        return [self._index[label] for label in self.predicted_types]

    @torch.no_grad()
    def predict(self, states: Tensor, mask: Tensor) -> list[list[Span]]:
        scores = self.scores(states)
        shown = torch.zeros(len(self.types), dtype=torch.bool, device=mask.device)
        shown[self._predicted()] = True
        hits = ((scores > 0) & self._inside(mask)[..., None] & shown).nonzero()  # [N, 4]
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
        if width >= self.settings.max_width or span.label not in self.predicted_types:
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

    @torch.no_grad()
    def start_from_states(self, batches: LabelledStates, types: Collection[str]) -> set[str]:
        """Rows point from the mean of all spans to the mean span of the type, at the mean length of the kept rows.

        The mean span scores as it does for the kept types, or as rare where none is kept.
        """
        sums, counts = torch.zeros_like(self.project.weight), torch.zeros_like(self.project.bias)
        total, number = sums.new_zeros(self.project.in_features), 0
        for states, mask, targets in batches:
            inside = self._inside(mask)
            spans = self.joined(states.to(sums))[inside]  # [N, D]
            gold = targets[inside].to(sums)  # [N, C]
            sums, counts = sums + gold.T @ spans, counts + gold.sum(0)
            total, number = total + spans.sum(0), number + len(spans)
        seen = {label for label in types if counts[self._index[label]]}
        if seen:
            self._set_prototypes(sums / counts.clamp(min=1)[:, None], total / number, types, seen)
        return seen

    def _set_prototypes(self, means: Tensor, centre: Tensor, types: Collection[str], seen: Collection[str]) -> None:
        """Rows of the types ``seen``, among the new ``types``, from mean spans ``[C, D]``."""
        weight, bias = self.project.weight, self.project.bias
        known = [row for label, row in self._index.items() if label not in types]
        length = weight[known].norm(dim=1).mean() if known else weight.norm(dim=1).mean()
        usual = (weight[known] @ centre + bias[known]).mean() if known else _RARE
        rows = [row for label, row in self._index.items() if label in seen]
        away = means[rows] - centre  # [R, D]
        weight[rows] = length / away.norm(dim=1).mean().clamp(min=1e-9) * away
        bias[rows] = usual - weight[rows] @ centre

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
