"""One pass over batches of two domains: what their encoders share runs once for both (DATNet §3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from nershift.encoders.birnn import bidirectional
from nershift.encoders.chars import CharCNN
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.methods.datnet.perturbation import Features, Moves
from nershift.methods.datnet.shared_private import SharedPrivateEncoder


@dataclass(frozen=True)
class Side:
    """One domain's batch: the encoder that reads it and the rows of the joint batch that it fills."""

    encoder: RecurrentEncoder
    rows: Tensor  # [U], of its own word table
    lengths: Tensor  # [b]
    first: int
    width: int  # of the padded batch, before it joined

    @property
    def at(self) -> slice:
        return slice(self.first, self.first + len(self.lengths))


class PairedBatch:
    """Batches of encoders that share characters and a recurrent layer, padded to one width.

    Word tables and private layers stay each side's own. The states of a side are those that its encoder alone
    would give (its dropout masks apart); on a GPU, where a small recurrent layer takes its time by the length of
    sentences and not by their number, two sides cost little more than one.
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

    def clean(self, keep: bool) -> Features:
        return Features.clean(self._cnn, self._vectors(), self.inputs, keep)

    def moved(self, by: Moves) -> Features:
        return Features.moved(self._cnn, self._vectors(), self.inputs, by)

    def moves(self, clean: Features, words: Sequence[float], chars: float) -> Moves:
        """``words``: the ε of each side."""
        epsilons = torch.cat(
            [
                clean.words.new_full((len(side.lengths),), epsilon)
                for side, epsilon in zip(self.sides, words, strict=True)
            ]
        )  # [B]
        return Moves.against(self._cnn, self.inputs, clean, epsilons, chars)

    def states(self, features: Features) -> tuple[Tensor, list[Tensor]]:
        """Those of the shared layer ``[B, L, shared]``, and of each side all its states ``[b, l, size]``."""
        first = self.sides[0].encoder
        x = features.joined(first)  # [B, L, F]
        shared = first.dropout(bidirectional(first.recurrent, x, self.lengths))
        return shared, [self._of_side(side, x, shared) for side in self.sides]

    def _of_side(self, side: Side, x: Tensor, shared: Tensor) -> Tensor:
        found = shared[side.at, : side.width]
        if not isinstance(side.encoder, SharedPrivateEncoder):
            return found
        own = x[side.at, : side.width]
        private = bidirectional(side.encoder.private, own, side.lengths)
        return torch.cat([side.encoder.dropout(private), found], -1)  # [b, l, private + shared]

    @property
    def _cnn(self) -> CharCNN | None:
        return self.sides[0].encoder.chars

    def _vectors(self) -> Tensor:
        return torch.cat([side.encoder.words(side.rows) for side in self.sides])  # [U, D]
