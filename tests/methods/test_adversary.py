"""Gradient reversal, attention pooling and the discriminator against their equations written out."""

from __future__ import annotations

import torch
from torch import Tensor

from nershift.methods.adversary import AttentionPool, Discriminator, reverse


def example() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]).bool()
    return torch.randn(2, 4, 6, dtype=torch.float64, requires_grad=True), mask


def test_reversal_keeps_values_and_turns_the_gradient() -> None:
    x = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    y = reverse(x, 0.8)
    assert torch.equal(y, x)
    (gradient,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
    torch.testing.assert_close(gradient, -0.8 * 3 * x**2)
    # A second derivative passes the backward pass, which is linear: no sign is lost or doubled there.
    (second,) = torch.autograd.grad(gradient.sum(), x)
    torch.testing.assert_close(second, 0.8 * 0.8 * 6 * x)


def test_attention_weights_are_the_softmax_of_eq_9_over_real_tokens() -> None:
    states, mask = example()
    pool = AttentionPool(6).double()
    weights = pool.weights(states, mask)
    for b, length in enumerate([4, 2]):
        scores = torch.tanh(states[b, :length] @ pool.vector + pool.bias)
        expected = scores.exp() / scores.exp().sum()
        torch.testing.assert_close(weights[b, :length], expected)
        assert (weights[b, length:] == 0).all()
        torch.testing.assert_close(pool(states, mask)[b], expected @ states[b, :length])  # eq. 10


def test_what_stands_under_padding_changes_nothing() -> None:
    states, mask = example()
    discriminator = Discriminator(6, 3).double()
    changed = torch.where(mask[..., None], states, torch.full_like(states, 7.0))
    torch.testing.assert_close(discriminator(states, mask), discriminator(changed, mask), rtol=0, atol=0)
    discriminator.loss(states, mask, 1).backward()
    assert states.grad is not None
    assert (states.grad[~mask] == 0).all()


def test_loss_is_the_cross_entropy_of_one_domain() -> None:
    states, mask = example()
    discriminator = Discriminator(6, 3).double()
    probabilities = torch.softmax(discriminator(states, mask), -1)
    torch.testing.assert_close(discriminator.loss(states, mask, 2), -probabilities[:, 2].log().mean())


def test_every_part_is_a_trained_parameter() -> None:
    """The attention vector and its bias too: a plain tensor would never learn."""
    states, mask = example()
    discriminator = Discriminator(6, 3).double()
    discriminator.loss(states, mask, 0).backward()
    names = dict(discriminator.named_parameters())
    assert {"pool.vector", "pool.bias"} <= set(names)
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in names.values())


def test_reversed_states_are_pushed_towards_confusion() -> None:
    states, mask = example()
    discriminator = Discriminator(6, 3).double()
    before = discriminator.loss(states, mask, 0)
    (gradient,) = torch.autograd.grad(discriminator.loss(reverse(states, 0.8), mask, 0), states)
    after = discriminator.loss(states - 0.01 * gradient, mask, 0)  # descends on the reversed loss
    assert after > before
