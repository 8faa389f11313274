from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nershift.encoders.recurrent import Packing, bidirectional, padded_states

LENGTHS = [[3], [1, 1, 1], [2, 5, 5, 1, 4], [7, 6, 5]]


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


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("extra", [0, 2])
def test_packing_is_torchs_own(lengths: list[int], extra: int) -> None:
    """Values and gradients, with padding beyond the longest sentence too."""
    torch.manual_seed(0)
    layer = nn.LSTM(4, 3, batch_first=True, bidirectional=True).double()
    found = []
    x = torch.randn(len(lengths), max(lengths) + extra, 4, dtype=torch.double, requires_grad=True)
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=x.shape[1])
    packing = Packing.of(torch.tensor(lengths), x)
    ours = packing.unpack(layer(packing.pack(x))[0].data)
    torch.testing.assert_close(ours, expected)
    weight = torch.randn_like(ours)
    for states in (ours, expected):
        found.append(torch.autograd.grad((states * weight).sum(), [x, *layer.parameters()]))
    torch.testing.assert_close(found[0], found[1])


def test_second_derivatives_pass_through() -> None:
    x = torch.randn(3, 4, 2, dtype=torch.double, requires_grad=True)
    packing = Packing.of(torch.tensor([2, 4, 1]), x)
    assert torch.autograd.gradgradcheck(lambda y: packing.unpack(packing.pack(y).data.tanh()), x)
