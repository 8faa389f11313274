"""States of all prefixes at once against each by itself, and attention over them against attention written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nershift.methods.laner.fast.attention import attend
from nershift.methods.laner.fast.merged_walks import merge_walks, walk
from nershift.methods.laner.fast.prefix_states import backward_states, newest_states
from nershift.methods.laner.head import LabelEncoder

LABEL = 5


@pytest.mark.parametrize("first", [0, 2, 5])
@pytest.mark.parametrize("kernel", ["walks", "packed"])
def test_states_of_all_prefixes_are_those_of_each(first: int, kernel: str, monkeypatch: Any) -> None:
    torch.manual_seed(0)
    encoder = LabelEncoder(LABEL).double()
    table, labels = torch.randn(4, LABEL).double(), torch.randint(0, 3, (3, 6))
    live = torch.arange(6) < torch.tensor([6, 4, 1])[:, None]
    if kernel == "packed":  # the GPU's path, taken on the CPU
        monkeypatch.setattr(Tensor, "is_cuda", True)
    states, where = backward_states(encoder, table, labels, live, first)
    monkeypatch.undo()
    found = states[where]
    for b, i in live.nonzero().tolist():
        if i >= first:
            expected = encoder(table[labels[b, : i + 1]][None])[0, :, LABEL:]
            torch.testing.assert_close(found[b, i - first, : i + 1], expected)
    torch.testing.assert_close(newest_states(encoder, table)[2], encoder(table[2][None, None])[0, 0, LABEL:])


def test_walks_that_read_the_same_are_taken_once() -> None:
    labels = torch.zeros(4, 6, dtype=torch.long)
    steps, where = merge_walks(labels, torch.ones(4, 6).bool(), 0)
    assert [len(s.label) for s in steps] == [1] * 6
    assert where.max() == 5
    empty, where = merge_walks(labels, torch.zeros(4, 6).bool(), 0)
    assert empty == []
    assert walk(torch.randn(2, 8), torch.randn(8, 2), empty)[where].shape == (4, 6, 6, 2)


def test_gradients_of_walks_are_right() -> None:
    torch.manual_seed(1)
    labels = torch.randint(0, 2, (3, 5))
    live = torch.arange(5) < torch.tensor([5, 3, 2])[:, None]
    gates = torch.randn(3, 12, dtype=torch.double, requires_grad=True)
    weight = torch.randn(12, 3, dtype=torch.double, requires_grad=True)
    for first in (0, 2):
        steps, _ = merge_walks(labels, live, first)
        assert torch.autograd.gradcheck(lambda g, w, steps=steps: walk(g, w, steps), (gates, weight))


@pytest.mark.parametrize("first", [0, 3])
def test_attention_in_blocks_is_attention(first: int) -> None:
    """Over 11 positions, more than a block; values, and gradients by finite differences."""
    draw = torch.Generator().manual_seed(0)
    rows = 11 - first
    nodes, query, scores = (
        torch.randn(shape, generator=draw, dtype=torch.double, requires_grad=True)
        for shape in ((7, 3), (2, rows, 3), (2, rows, 11))
    )
    where = torch.randint(0, 7, (2, rows, 11), generator=draw)
    shares, means = attend(nodes, where, query, scores, first)
    total = scores + torch.einsum("brkd,brd->brk", nodes[where], query)
    later = torch.arange(11) > torch.arange(first, 11)[:, None]
    expected = total.masked_fill(later, float("-inf")).softmax(-1)
    torch.testing.assert_close(shares, expected)
    torch.testing.assert_close(means, torch.einsum("brk,brkd->brd", expected, nodes[where]))
    assert torch.autograd.gradcheck(lambda a, q, s: attend(a, where, q, s, first), (nodes, query, scores))
