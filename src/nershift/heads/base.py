"""What every head offers: from encoder states to a loss, to tags and to the probability of a span."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from nershift.data.labels import LabelSpace
from nershift.data.spans import Span
from nershift.registry import Registry

HEADS = Registry["type[Head]"]("head", "nershift.heads", "nershift.heads", "nershift.methods")
_Class = TypeVar("_Class", bound="type[Head]")


def register(name: str, *aliases: str) -> Callable[[_Class], _Class]:
    """Make a head known under ``name``, which is also what its saved models say.

    Example:
        >>> @register("mine")
        ... class Mine(Head):
        ...     "Found as `head.kind: mine`."
        >>> HEADS["mine"] is Mine, Mine.kind
        (True, 'mine')
    """

    def keep(cls: _Class) -> _Class:
        cls.kind = name
        HEADS.register(name, *aliases)(cls)
        return cls

    return keep


class Head(nn.Module, ABC):
    """Scores the tags of one label space from encoder states (φ in the papers; the encoder is θ).

    Masks are left aligned: True for the tokens of a sentence, False for the padding behind them. Whatever
    stands in states or tags under padding has no effect.

    ``temperature`` divides all scores where :meth:`confidences` turns them into probabilities, and nowhere else: it
    changes how sure a tagger says it is, never what it tags or learns.
    """

    def __init__(self, space: LabelSpace, size: int) -> None:
        super().__init__()
        self.space = space
        self.project = nn.Linear(size, len(space))
        self.temperature = 1.0

    kind: ClassVar[str]
    retired: ClassVar[tuple[str, ...]] = ()  # parts it once had: their saved weights are passed over

    @classmethod
    def new(cls, space: LabelSpace, size: int, settings: Mapping[str, Any]) -> Head:
        """A new head with random weights; ``settings`` are what :meth:`describe` gives under that name."""
        return cls(space, size)

    def describe(self) -> dict[str, Any]:
        """JSON values from which :func:`make_head` makes a head of the same shape."""
        told = {"kind": self.kind, "types": list(self.space.types), "scheme": self.space.scheme}
        return told if self.temperature == 1.0 else told | {"temperature": self.temperature}

    @abstractmethod
    def loss(self, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        """Negative log-likelihood of each sentence, summed over its tokens.

        Args:
            states: encoder output, [B, L, H].
            mask: bool, [B, L].
            tags: tag ids of the label space, [B, L].

        Returns:
            [B], float32 or wider.
        """

    @abstractmethod
    def decode(self, states: Tensor, mask: Tensor) -> list[list[int]]:
        """The best tag ids of each sentence, as many as it has tokens."""

    @abstractmethod
    def confidences(self, states: Tensor, mask: Tensor, spans: Sequence[Sequence[Span]]) -> list[list[float]]:
        """The probability of each given span; spans need not come from :meth:`decode` and may overlap."""


def make_head(kind: str, space: LabelSpace, size: int, settings: Mapping[str, Any] | None = None) -> Head:
    """Build a head by name.

    Args:
        kind: a registered name, such as ``crf`` or ``softmax``.
        space: the entity types it predicts.
        size: width of the encoder states.
        settings: of the head itself, where it has any.

    Example:
        >>> make_head("crf", LabelSpace.of(["LOC"]), 8).project
        Linear(in_features=8, out_features=5, bias=True)
    """
    return HEADS[kind].new(space, size, settings or {})


def cut(ids: Tensor, mask: Tensor) -> list[list[int]]:
    """Rows of ids without their padding, as plain lists."""
    lengths = mask.sum(1).tolist()
    return [row[:length] for row, length in zip(ids.tolist(), lengths, strict=True)]


def widened(scores: Tensor) -> Tensor:
    """At least single precision: what half-precision training computes its losses in."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))
