"""What every decoder offers: from encoder states to a loss, to tags and to the probability of a span."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from nershift.data.labels import LabelSpace
from nershift.data.spans import Span
from nershift.errors import ConfigError, nearest

DecoderKind = Literal["crf", "softmax", "prototypes", "label-aware"]
DECODERS: tuple[DecoderKind, ...] = ("crf", "softmax", "prototypes", "label-aware")


class Decoder(nn.Module, ABC):
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

    def describe(self) -> dict[str, Any]:
        """JSON values from which :func:`make_decoder` makes a decoder of the same shape."""
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


def make_decoder(
    kind: DecoderKind, space: LabelSpace, size: int, settings: Mapping[str, Any] | None = None
) -> Decoder:
    """Build a decoder by name.

    Args:
        kind: ``crf``, ``softmax``, ``prototypes`` or ``label-aware``.
        space: the label space whose tags it predicts.
        size: width of the encoder states.
        settings: of the decoder itself, where it has any (``label-aware``).

    Example:
        >>> make_decoder("crf", LabelSpace.of(["LOC"]), 8).project
        Linear(in_features=8, out_features=5, bias=True)
    """
    from nershift.nn.crf.decoder import CRFDecoder
    from nershift.nn.label_aware.decoder import LabelAwareDecoder
    from nershift.nn.prototypes import PrototypeDecoder
    from nershift.nn.softmax import SoftmaxDecoder

    if kind == "crf":
        return CRFDecoder(space, size)
    if kind == "softmax":
        return SoftmaxDecoder(space, size)
    if kind == "prototypes":
        return PrototypeDecoder(space, size)
    if kind == "label-aware":
        return LabelAwareDecoder(space, size, settings)
    raise ConfigError(
        f"there is no decoder '{kind}'{nearest(kind, DECODERS)}", expected=f"one of: {', '.join(DECODERS)}"
    )


def cut(ids: Tensor, mask: Tensor) -> list[list[int]]:
    """Rows of ids without their padding, as plain lists."""
    lengths = mask.sum(1).tolist()
    return [row[:length] for row, length in zip(ids.tolist(), lengths, strict=True)]


def widened(scores: Tensor) -> Tensor:
    """At least single precision: what half-precision training computes its losses in."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))
