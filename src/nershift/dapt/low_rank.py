"""Low-rank changes to linear layers: few weights to train, which are added to the model's own in the end (LoRA)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize


class LowRankChange(nn.Module):
    """``W + B A``, where B begins as zero: at first nothing is changed.

    Args:
        rows: of W.
        columns: of W.
        rank: columns of B and rows of A.
    """

    def __init__(self, rows: int, columns: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.empty(rank, columns).uniform_(-1, 1) / math.sqrt(columns))
        self.up = nn.Parameter(torch.zeros(rows, rank))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.up @ self.down


def add_changes(model: nn.Module, rank: int) -> int:
    """Freeze the model and give every linear layer a change of its own; how many layers have one. Seed torch before."""
    model.requires_grad_(False)
    layers = [part for part in model.modules() if isinstance(part, nn.Linear)]
    for layer in layers:
        rows, columns = layer.weight.shape
        change = LowRankChange(rows, columns, min(rank, rows, columns)).to(layer.weight)
        parametrize.register_parametrization(layer, "weight", change)
    return len(layers)


@torch.no_grad()
def merge_changes(model: nn.Module) -> None:
    """Put the changes into the weights: the model has its old shape and names again."""
    for layer in [part for part in model.modules() if parametrize.is_parametrized(part, "weight")]:
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
