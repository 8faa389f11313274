from __future__ import annotations

import numpy as np
import pytest
import torch

from nershift.config import CharsConfig
from nershift.encoders.words import CharCNN
from nershift.text.word_cache import Vocabulary, WordCache

WORDS = ["a", "Rome", "zolpirex", "20mg", "Rome", "x" * 15, "é"]


def _cnn(widths: tuple[int, ...] = (1, 2, 3, 5), filters: int = 11) -> tuple[CharCNN, Vocabulary]:
    torch.manual_seed(0)
    letters = Vocabulary("abcdefghijklmnopqrstuvwxyzR0123456789")
    return CharCNN(CharsConfig(size=5, widths=widths, filters=filters), len(letters)), letters


def _by_hand(cnn: CharCNN, ids: list[int]) -> torch.Tensor:
    """Slide every filter over the word between width - 1 zeros on both sides; maximum, then ReLU."""
    x = cnn.embedding.weight[ids]  # [W, size]
    out = []
    for conv in cnn.convolutions:
        width = conv.kernel_size[0]
        edge = torch.zeros(width - 1, x.shape[1])
        padded = torch.cat([edge, x, edge])
        scores = [
            (conv.weight * padded[i : i + width].t()).sum((1, 2)) + conv.bias for i in range(len(ids) + width - 1)
        ]
        out.append(torch.stack(scores).amax(0).clamp(min=0))
    return torch.cat(out)


def test_equals_the_sliding_window_written_out() -> None:
    cnn, letters = _cnn()
    word_cache = WordCache(Vocabulary(), letters, 20)
    _, chars = word_cache.look_up(np.array(word_cache.numbers(WORDS)))
    got = cnn(chars)
    assert got.shape == (len(WORDS), 11)
    for word, row in zip(WORDS, got, strict=True):
        ids = [letters.index.get(c, 1) for c in word]
        torch.testing.assert_close(row, _by_hand(cnn, ids), atol=1e-6, rtol=0)


def test_padding_to_longer_words_changes_nothing() -> None:
    cnn, letters = _cnn()
    ids = [letters.index[c] for c in "rome"]
    alone = cnn(torch.tensor([ids]))
    for more in (1, 3, 20):
        torch.testing.assert_close(cnn(torch.tensor([ids + [0] * more])), alone, atol=1e-6, rtol=0)


def test_padding_vectors_stay_without_effect_when_an_adversary_moves_them() -> None:
    cnn, letters = _cnn()
    chars = torch.tensor([[letters.index[c] for c in "rome"] + [0, 0]])
    x = cnn.embedding(chars).detach()
    moved = x.clone()
    moved[:, 4:] += 7
    torch.testing.assert_close(cnn.convolve(moved, chars != 0), cnn.convolve(x, chars != 0))


def test_no_gradient_reaches_the_padding_row() -> None:
    cnn, letters = _cnn()
    cnn(torch.tensor([[letters.index["a"], 0, 0]])).sum().backward()
    assert cnn.embedding.weight.grad is not None
    assert not cnn.embedding.weight.grad[0].any()


@pytest.mark.parametrize(("widths", "filters"), [((3,), 4), ((2, 3, 4), 10), ((2, 3, 4), 2)])
def test_filters_are_shared_out(widths: tuple[int, ...], filters: int) -> None:
    cnn, _ = _cnn(widths, filters)
    assert cnn(torch.tensor([[2, 3]])).shape == (1, filters)


def test_growing_keeps_what_was_learnt() -> None:
    cnn, letters = _cnn()
    chars = torch.tensor([[letters.index[c] for c in "rome"]])
    before = cnn(chars)
    cnn.grow(len(letters) + 3)
    assert len(cnn.embedding.weight) == len(letters) + 3
    assert cnn.embedding.weight.requires_grad
    assert cnn.embedding.padding_idx == 0
    assert torch.equal(cnn(chars), before)
    cnn(torch.tensor([[len(letters) + 2]])).sum().backward()
