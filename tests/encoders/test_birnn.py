from __future__ import annotations

import pytest
import torch
from torch import nn

from nershift.encoders.birnn import bidirectional, padded_states


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("layers", [1, 2])
def test_padded_and_packed_agree(cell: str, layers: int) -> None:
    """States and all gradients, with sentences of every length."""
    torch.manual_seed(0)
    layer = {"gru": nn.GRU, "lstm": nn.LSTM}[cell](5, 4, layers, batch_first=True, bidirectional=True).double()
    lengths = torch.tensor([3, 7, 1, 7])
    x = torch.randn(4, 7, 5, dtype=torch.double, requires_grad=True)
    wanted = torch.randn(4, 7, 8, dtype=torch.double)
    found = []
    for states in (
        bidirectional(layer, x, lengths),
        padded_states(cell, layer._flat_weights, x, lengths, training=True),
    ):
        grads = torch.autograd.grad((states * wanted).sum(), [x, *layer.parameters()])
        found.append([states, *grads])
    for packed, padded in zip(*found, strict=True):
        torch.testing.assert_close(padded, packed)
    assert not found[0][0][0, 3:].any()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_as_on_the_cpu() -> None:
    layer = nn.GRU(6, 8, batch_first=True, bidirectional=True)
    x, lengths = torch.randn(3, 5, 6), torch.tensor([5, 2, 4])
    wanted = bidirectional(layer, x, lengths)
    torch.testing.assert_close(bidirectional(layer.cuda(), x.cuda(), lengths).cpu(), wanted, rtol=1e-3, atol=1e-3)
