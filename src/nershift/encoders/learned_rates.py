"""A learned factor on the learning rate of each layer of the encoder (Meta-SGD, of first order)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nershift.encoders.base import Encoder

_LAYER = re.compile(r"(.*\.\d+)\.")  # up to the last number that is a part of the name by itself


def layer_of(parameter: str) -> str:
    """The layer that a weight of an encoder belongs to, by its name.

    Example:
        >>> layer_of("parts.0.model.layer.11.output.weight"), layer_of("recurrent.weight_ih_l0")
        ('parts.0.model.layer.11', 'recurrent')
    """
    numbered = _LAYER.match(parameter)
    return numbered[1] if numbered else parameter.partition(".")[0]


class LearnedRates(nn.Module):
    """Factors α_l on the learning rates of layers, all 1 at first. ``log`` is trained with the model.

    With θ' = θ + α_l Δ_l, where Δ_l is the sum of a layer's inner moves at α_l = 1 and is taken as constant,

        dL(θ') / d log α_l = ∇L(θ')_l · (θ' - θ)_l
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.layers = list(dict.fromkeys(layer_of(n) for n, p in encoder.named_parameters() if p.requires_grad))
        self.log = nn.Parameter(torch.zeros(len(self.layers)))  # [layers]

    def factors(self, encoder: Encoder) -> dict[nn.Parameter, float]:
        """The factor of each trained weight of an encoder."""
        by_layer = dict(zip(self.layers, self.log.detach().exp().tolist(), strict=True))
        return {p: by_layer[layer_of(n)] for n, p in encoder.named_parameters() if p.requires_grad}

    def gradient(self, names: Sequence[str], slopes: Sequence[Tensor], moves: Sequence[Tensor]) -> Tensor:
        """``dL / d log α``, [layers], from ∇L(θ') and θ' - θ of the weights with these names."""
        total = torch.zeros_like(self.log)
        for name, slope, move in zip(names, slopes, moves, strict=True):
            total[self.layers.index(layer_of(name))] += (slope * move).sum()
        return total
