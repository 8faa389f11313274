from __future__ import annotations

import math

import pytest
import torch

from nershift.methods.adversary import reverse
from nershift.methods.datnet.grad_loss import ResourceDiscriminator, grad_loss, plain_loss

LOGITS = [-7.0, -1.3, 0.0, 0.4, 9.0]


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.25, 0.8, 1.0])
@pytest.mark.parametrize("gamma", [0.0, 1.0, 2.0, 3.5])
def test_equals_equation_one_written_out(alpha: float, gamma: float) -> None:
    got = {s: grad_loss(torch.tensor(LOGITS, dtype=torch.double), s, alpha, gamma) for s in (True, False)}
    for i, z in enumerate(LOGITS):
        r = 1 / (1 + math.exp(-z))
        assert float(got[True][i]) == pytest.approx(-alpha * (1 - r) ** gamma * math.log(r), rel=1e-4, abs=1e-9)
        assert float(got[False][i]) == pytest.approx(-(1 - alpha) * r**gamma * math.log(1 - r), rel=1e-4, abs=1e-9)


def test_alpha_really_moves_the_weight_between_the_resources() -> None:
    """It cancels out when both columns of a two-class softmax are weighted; it must not here."""
    z = torch.tensor(LOGITS, dtype=torch.double, requires_grad=True)

    def gradient(alpha: float, source: bool) -> torch.Tensor:
        return torch.autograd.grad(grad_loss(z, source, alpha).sum(), z)[0]

    for source, factor in ((True, 0.8 / 0.2), (False, 0.2 / 0.8)):
        torch.testing.assert_close(gradient(0.8, source), factor * gradient(0.2, source))
    total = [(grad_loss(z, True, a) + grad_loss(z, False, a)).sum().item() for a in (0.2, 0.8)]
    assert total[0] != pytest.approx(total[1], rel=1e-2)


def test_gamma_quiets_sentences_that_are_told_rightly() -> None:
    easy, hard = torch.tensor([3.0]), torch.tensor([-3.0])
    ratios = [float(grad_loss(easy, True, 0.5, g) / grad_loss(hard, True, 0.5, g)) for g in (0.0, 1.0, 2.0)]
    assert ratios[0] > 10 * ratios[1] > 100 * ratios[2]


def test_without_weights_it_is_half_the_plain_adversary() -> None:
    z = torch.tensor(LOGITS)
    for source in (True, False):
        torch.testing.assert_close(2 * grad_loss(z, source, 0.5, 0.0), plain_loss(z, source))


def test_extreme_logits_stay_finite() -> None:
    z = torch.tensor([-200.0, 200.0], requires_grad=True)
    (grad_loss(z, True).sum() + grad_loss(z, False).sum()).backward()
    assert z.grad is not None
    assert z.grad.isfinite().all()


def test_padding_has_no_say_in_the_pool() -> None:
    torch.manual_seed(0)
    discriminator, states = ResourceDiscriminator(6), torch.randn(2, 5, 6)
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    moved = states.clone()
    moved[1, 2:] = 99.0
    assert torch.equal(discriminator(states, mask), discriminator(moved, mask))
    torch.testing.assert_close(discriminator(states, mask)[1], discriminator(states[1:, :2], mask[1:, :2])[0])
    # A mean of the states, not their sum: equal states pool to themselves.
    same = states[:1, :1].expand(1, 5, 6)
    torch.testing.assert_close(discriminator.pool(same, mask[:1]), same[:, 0])


def test_every_part_of_the_discriminator_learns_and_the_encoder_learns_the_opposite() -> None:
    torch.manual_seed(0)
    discriminator, mask = ResourceDiscriminator(6), torch.ones(3, 4, dtype=torch.bool)
    states = torch.randn(3, 4, 6, requires_grad=True)
    (plain,) = torch.autograd.grad(grad_loss(discriminator(states, mask), True).sum(), states)
    grad_loss(discriminator(reverse(states, 0.7), mask), True).sum().backward()
    torch.testing.assert_close(states.grad, -0.7 * plain)
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in discriminator.parameters())
