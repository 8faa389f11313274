"""One pass over a source and a target batch: what their encoders share (§3.2) runs once for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from nershift.encoders.recurrent import RecurrentEncoder, bidirectional
from nershift.encoders.words import CharCNN
from nershift.methods.datnet.perturbation import Features, Perturbation
from nershift.methods.datnet.shared_private import SharedPrivateEncoder


@dataclass(frozen=True)
class Side:
    """The batch of one resource within the pair."""

    encoder: RecurrentEncoder
    rows: Tensor  # [U], in its own word table
    lengths: Tensor  # [b]
    first: int  # its first row in the pair
    width: int  # of the padded batch on its own

    @property
    def at(self) -> slice:
        """Its rows in the pair."""
        return slice(self.first, self.first + len(self.lengths))


class PairedBatch:
    """Batches of encoders that share characters and a recurrent layer, padded to one width.

    Each side keeps its own word table and private layer, and gets the states that its encoder alone would give (up to
    dropout). On a GPU a small recurrent layer takes time by the length of sentences, hardly by their number, so
    two sides cost little more than one.
    """

    def __init__(self, sides: Sequence[tuple[RecurrentEncoder, Mapping[str, Tensor]]]) -> None:
        widest = max(inputs["where"].shape[1] for _, inputs in sides)
        longest = max(inputs["chars"].shape[1] for _, inputs in sides)
        self.sides: list[Side] = []
        where, mask, chars = list[Tensor](), list[Tensor](), list[Tensor]()
        forms = first = 0
        for encoder, inputs in sides:
            count, width = inputs["where"].shape
            self.sides.append(Side(encoder, inputs["rows"], inputs["lengths"], first, width))
            where.append(pad(inputs["where"] + forms, (0, widest - width), value=forms))
            mask.append(pad(inputs["mask"], (0, widest - width)))
            chars.append(pad(inputs["chars"], (0, longest - inputs["chars"].shape[1])))
            forms, first = forms + len(inputs["rows"]), first + count
        self.lengths = torch.cat([side.lengths for side in self.sides])  # [B]
        self.mask = torch.cat(mask)  # [B, L]
        self.inputs = {"where": torch.cat(where), "chars": torch.cat(chars)}  # [B, L], [U, W]

    def features(self, keep_gradients: bool) -> Features:
        return Features.clean(self._cnn, self._vectors(), self.inputs, keep_gradients)

    def perturbed_features(self, by: Perturbation) -> Features:
        return Features.perturbed(self._cnn, self._vectors(), self.inputs, by)

    def perturbation(self, clean: Features, words: Sequence[float], chars: float) -> Perturbation:
        """η of eq. 3; ``words`` has the ε of each side."""
        epsilons = torch.cat(
            [clean.words.new_full((len(side.lengths),), e) for side, e in zip(self.sides, words, strict=True)]
        )  # [B]
        return Perturbation.against(self._cnn, self.inputs, clean, epsilons, chars)

    def states(self, features: Features) -> tuple[Tensor, list[Tensor]]:
        """The states of the shared layer ``[B, L, shared]``, and all states of each side ``[b, l, size]``."""
        first = self.sides[0].encoder
        x = features.joined(first)  # [B, L, F]
        shared = first.dropout(bidirectional(first.recurrent, x, self.lengths))
        return shared, [self._of_side(side, x, shared) for side in self.sides]

    def _of_side(self, side: Side, x: Tensor, shared: Tensor) -> Tensor:
        own = shared[side.at, : side.width]
        if not isinstance(side.encoder, SharedPrivateEncoder):
            return own
        private = bidirectional(side.encoder.private, x[side.at, : side.width], side.lengths)
        return torch.cat([side.encoder.dropout(private), own], -1)  # [b, l, private + shared]

    @property
    def _cnn(self) -> CharCNN | None:
        return self.sides[0].encoder.chars

    def _vectors(self) -> Tensor:
        return torch.cat([side.encoder.words(side.rows) for side in self.sides])  # [U, D]
