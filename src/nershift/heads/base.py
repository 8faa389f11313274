"""What every head offers: from encoder states to a loss, and to entities with their probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nershift.config import build
from nershift.data.labels import LabelMapping, LabelSpace
from nershift.data.spans import Sentence, Span
from nershift.errors import SetupError
from nershift.evaluation.calibration import possible_temperature
from nershift.heads.soft import SoftForm, SoftTargets
from nershift.registry import Registry

HEADS = Registry["type[Head]"]("head", "nershift.heads", "nershift.heads", "nershift.methods", attribute="kind")
register = HEADS.register
Targets = NDArray[Any]  # of one sentence; the first axis are its tokens
LabelledStates = Iterable[tuple[Tensor, Tensor, Tensor]]  # batches of states [B, L, H], mask and targets


@dataclass(frozen=True)
class NoSettings:
    """A head without settings of its own."""


class Head(nn.Module, ABC):
    """Finds the entities of one label set in encoder states (φ in the papers; the encoder is θ).

    A head works on spans: it turns the gold spans of a sentence into targets of its own making, and states into
    predicted spans. Nobody else looks into targets. Masks are left aligned: True for the tokens of a sentence, False
    for the padding after them. Values under padding have no effect.

    ``temperature`` divides the scores where they become probabilities, and nowhere else: it changes how sure a tagger
    says it is, never what it predicts or learns.

    A head may know more types than its target has. :meth:`restrict` names those that it predicts: the others have
    probability zero. It changes nothing in training.
    """

    kind: ClassVar[str]
    Settings: ClassVar[type] = NoSettings  # a dataclass: what `head.options` may hold
    retired: ClassVar[tuple[str, ...]] = ()  # parts of earlier versions: their saved weights are skipped
    learns_rows: ClassVar[bool] = True  # False: its rows are computed from labelled sentences
    row_starts: ClassVar[tuple[str, ...]] = ("random",)  # values of `head.new_rows` that it can follow
    overlap_settings: ClassVar[str] = ""  # what a user sets to have it predict entities that overlap
    exportable: ClassVar[bool] = False  # can it run without torch? See `tagger/onnx`.
    gives_soft: ClassVar[SoftForm] = ""  # what its :meth:`soft_targets` are of; empty: it has none
    takes_soft: ClassVar[tuple[SoftForm, ...]] = ()  # what its :meth:`soft_loss` can learn from
    overlapping: bool = False  # may the entities that it predicts overlap?
    cuda_graph_safe: bool = False  # does its loss run on the GPU alone, without looking at a value there?
    predicted_types: tuple[str, ...]  # those of its types that it may predict
    kept_rows: Mapping[str, str]  # types whose rows come from another head: ours → theirs
    new_rows: Mapping[str, str]  # types whose rows do not → how these started, in words

    def __init__(self, types: Sequence[str]) -> None:
        super().__init__()
        self.types = tuple(types)
        self.predicted_types = self.types
        self.temperature = 1.0
        self.kept_rows, self.new_rows = {}, {}

    @classmethod
    @abstractmethod
    def new(cls, space: LabelSpace, size: int, settings: Any) -> Head:
        """A head with random weights for states of width ``size``; ``settings`` is a ``cls.Settings``."""

    @classmethod
    def allows_overlaps(cls, settings: Any) -> bool:
        """Can a head with these settings learn entities that overlap?"""
        return False

    def describe(self) -> dict[str, Any]:
        """JSON values from which :func:`head_from` makes a head of the same shape."""
        description: dict[str, Any] = {"kind": self.kind, "types": list(self.types)}
        if self.predicted_types != self.types:
            description["predicted_types"] = list(self.predicted_types)
        return description if self.temperature == 1.0 else description | {"temperature": self.temperature}

    def restrict(self, types: Iterable[str]) -> None:
        """From now on predict no type but these; types that the head does not know are ignored."""
        wanted = set(types)
        self.predicted_types = tuple(t for t in self.types if t in wanted)

    def fits(self, space: LabelSpace) -> bool:
        """Can the head serve this label set as it is?"""
        return self.types == space.types

    @abstractmethod
    def targets(self, sentence: Sentence) -> Targets:
        """What the loss compares with, from the gold spans of a sentence: [L, …]."""

    @abstractmethod
    def loss(self, states: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
        """Negative log-likelihood of each sentence.

        Args:
            states: encoder output, [B, L, H].
            mask: bool, [B, L].
            targets: as :meth:`targets` gives them, padded with zeros, [B, L, …].

        Returns:
            [B], float32 or wider.
        """

    @abstractmethod
    def predict(self, states: Tensor, mask: Tensor) -> list[list[Span]]:
        """The entities of each sentence, without scores."""

    @abstractmethod
    def confidences(self, states: Tensor, mask: Tensor, spans: Sequence[Sequence[Span]]) -> list[list[float]]:
        """The probability of each span; spans need not come from :meth:`predict` and may overlap."""

    def predict_scored(self, states: Tensor, mask: Tensor) -> list[list[Span]]:
        """:meth:`predict`, each span with its probability."""
        spans = self.predict(states, mask)
        return with_scores(spans, self.confidences(states, mask, spans))

    @torch.no_grad()
    def surprise(self, states: Tensor, mask: Tensor, spans: Sequence[Sequence[Span]]) -> Tensor:
        """``-log P`` of exactly these entities in each sentence, [B]: how unsure the head is of an answer."""
        lengths = mask.sum(1).tolist()
        answers = [Sentence(("",) * length).with_spans(row) for length, row in zip(lengths, spans, strict=True)]
        targets = pad_targets([self.targets(s) for s in answers], mask.cpu())
        return self._answer_loss(states, mask, targets.to(mask.device))

    def _answer_loss(self, states: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
        """The loss of an answer; for heads whose training loss is another one."""
        return self.loss(states, mask, targets)

    def soft_targets(self, states: Tensor, mask: Tensor, student: Head, temperature: float = 1.0) -> SoftTargets:
        """What the head says of a batch, for ``student``: a head that takes soft targets of this form.

        Args:
            student: whose types, in whose order, are told; this head must know them all.
            temperature: divides the scores, beside the head's own; below 1 it sharpens.
        """
        raise self._no_soft("gives no soft targets")

    def soft_loss(self, states: Tensor, mask: Tensor, soft: SoftTargets) -> Tensor:
        """Cross entropy of each sentence between a teacher's distribution and this head's, ``[B]``."""
        raise self._no_soft("cannot learn from soft targets")

    def _no_soft(self, what: str) -> SetupError:
        return SetupError(
            f"a head of kind '{self.kind}' {what}",
            place="head.kind",
            expected=" | ".join(kind for kind, head in HEADS.items() if head.gives_soft and head.takes_soft),
            fix="--set options.targets=hard",
        )

    def start_from(self, other: Head, mapping: Mapping[str, str]) -> bool:
        """Take over what ``other`` knows of the types that mean the same; the rest keeps its random start.

        Args:
            mapping: our type → the type of ``other``.

        Returns:
            False where this kind of head cannot start from the other one.
        """
        return False

    def start_from_states(self, batches: LabelledStates, types: Collection[str]) -> set[str]:
        """Start the rows of ``types`` from prototypes: the mean states of what carries the type.

        Returns:
            the types whose rows were started; the others occur in no batch and keep their random rows.
        """
        return set()

    def start_from_names(self, vectors: Mapping[str, Tensor]) -> set[str]:
        """Start the rows of types from the vectors ``[H]`` of their names (of unit length); returns which types."""
        return set()

    def out_of_reach(self, sentences: Sequence[Sentence]) -> str:
        """Which gold entities the head can never predict, as a sentence for people; empty if there are none."""
        return ""


def how_to_overlap() -> str:
    """What to do about entities that overlap, for messages."""
    return " or ".join(head.overlap_settings for head in HEADS.values() if head.overlap_settings)


def make_head(kind: str, space: LabelSpace, size: int, settings: Mapping[str, Any] | None = None) -> Head:
    """Build a head by name.

    Args:
        kind: a registered name, such as ``crf`` or ``softmax``.
        space: the entity types it predicts.
        size: width of the encoder states.
        settings: of the head itself, where it has any.

    Example:
        >>> make_head("crf", LabelSpace.of(["LOC"]), 8).types
        ('LOC',)
    """
    cls = HEADS[kind]
    return cls.new(space, size, build(cls.Settings, settings or {}, "config.head.options"))


def head_from(description: Mapping[str, Any], size: int) -> Head:
    """The inverse of :meth:`Head.describe`; weights are loaded afterwards."""
    space = LabelSpace(tuple(description["types"]), description.get("scheme", "BIOES"))
    head = make_head(description["kind"], space, size, description.get("settings"))
    head.temperature = possible_temperature(description.get("temperature", 1.0))
    head.restrict(description.get("predicted_types", head.types))
    return head


def start_from_best(head: Head, others: Iterable[Head], same: Mapping[str, str]) -> LabelMapping:
    """Let a new head take over rows of types that mean the same, from the other head that shares most of them.

    With few labels, keeping these rows has gained up to 25 F1; it does not help in every case.

    Args:
        same: target type → source type, where names do not tell.

    Returns:
        what was kept: empty where no other head fits.
    """
    mappings = [(LabelMapping.between(head.types, other.types, same), other) for other in others]
    for mapping, other in sorted(mappings, key=lambda pair: -len(pair[0])):  # of equals the first
        if mapping and head.start_from(other, mapping):
            return mapping
    return LabelMapping(unmapped=head.types)


def pad_targets(targets: Sequence[Targets], mask: Tensor) -> Tensor:
    """Targets of a batch, padded with zeros: [B, L, …]."""
    flat = torch.from_numpy(np.concatenate(list(targets)))
    padded = torch.zeros((*mask.shape, *flat.shape[1:]), dtype=flat.dtype)
    padded[mask] = flat
    return padded


def on_device(inputs: Mapping[str, Tensor], device: torch.device | str) -> dict[str, Tensor]:
    """Inputs of an encoder on its device; packing of recurrent sequences wants lengths on the CPU."""
    return {k: v if k == "lengths" else v.to(device, non_blocking=True) for k, v in inputs.items()}


def with_scores(spans: Sequence[Sequence[Span]], scores: Sequence[Sequence[float]]) -> list[list[Span]]:
    return [
        [Span(s.start, s.end, s.label, score) for s, score in zip(row, row_scores, strict=True)]
        for row, row_scores in zip(spans, scores, strict=True)
    ]


def widened(scores: Tensor) -> Tensor:
    """At least single precision: what half-precision training computes its losses in."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))
