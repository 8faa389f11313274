"""Formulas of several steps against optimisers that take them, and losses against their definitions."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nershift.config import TrainConfig
from nershift.data.labels import LabelSpace
from nershift.heads.softmax import SoftmaxHead
from nershift.methods.metacross.inner_update import StepRule
from nershift.methods.metacross.token_classifier import mean_and_max, token_losses
from nershift.training.optim import BertAdam, make_optimizer

RULES = [
    StepRule("sgd", 0.1),
    StepRule("sgd", 0.1, clip=0.5),
    StepRule("adam", 0.01),
    StepRule("adam", 0.01, clip=0.5),
    StepRule("released", 0.01, clip=0.5, weight_decay=0.1),
]


@pytest.mark.parametrize("rule", RULES)
def test_the_formula_takes_the_optimisers_steps(rule: StepRule) -> None:
    torch.manual_seed(0)
    weight = torch.randn(3, 4, dtype=torch.double)
    grads = [torch.randn_like(weight) for _ in range(4)]
    p = nn.Parameter(weight.clone())
    optimizer = rule.optimizer([p])
    for grad in grads:
        p.grad = grad.clone()
        rule.clip_tensors([p.grad])
        optimizer.step()
    clipped = [g * rule.clip_scale((g * g).sum()) for g in grads]
    torch.testing.assert_close(weight + rule.change(clipped, weight), p.detach(), rtol=1e-6, atol=1e-9)


def test_first_steps_of_both_adams() -> None:
    """From zero moments, Adam moves a weight by its rate and the released optimiser by √10 rates."""
    for rule, length in ((StepRule("adam", 1e-3), 1.0), (StepRule("released", 1e-3), 10**0.5)):
        p = nn.Parameter(torch.zeros(3))
        p.grad = torch.tensor([1.0, -2.0, 0.5])
        rule.optimizer([p]).step()
        assert p.detach().abs().tolist() == pytest.approx([length * 1e-3] * 3, rel=1e-3)


def test_bert_adam_clips_each_tensor_and_spares_vectors_from_decay() -> None:
    matrix, vector = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2))
    optimizer = BertAdam([matrix, vector], lr=0.1, weight_decay=0.5, clip=1.0)
    matrix.grad, vector.grad = torch.full((2, 2), 10.0), torch.zeros(2)
    optimizer.step()
    assert optimizer.state[matrix]["exp_avg"].norm() == pytest.approx(0.1, rel=1e-4)
    assert vector.tolist() == [1, 1]
    expected = 1 - 0.1 * (0.05 / (0.001**0.5 * 0.5 + 1e-6) + 0.5)
    assert matrix.flatten().tolist() == pytest.approx([expected] * 4, rel=1e-4)


def test_the_training_loop_knows_it() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(2, 2)
            self.encoder.word_parameters = list  # type: ignore[assignment]

        def rate_factors(self) -> dict[nn.Parameter, float]:
            return {}

    made = make_optimizer(TrainConfig(optimizer="bertadam", lr=0.1, weight_decay=0.01), Model())  # type: ignore[arg-type]
    assert isinstance(made, BertAdam)
    assert made.param_groups[0]["weight_decay"] == 0.01


def test_losses_of_a_sentence() -> None:
    torch.manual_seed(0)
    head = SoftmaxHead(LabelSpace.of(["PER"], "BIO"), 5)
    states, mask = torch.randn(2, 4, 5), torch.tensor([[True] * 4, [True, True, False, False]])
    tags = torch.randint(0, 3, (2, 4))
    losses = token_losses(head, states, mask, tags)
    for row, length in enumerate((4, 2)):
        own = nn.functional.cross_entropy(head.project(states[row, :length]), tags[row, :length], reduction="none")
        torch.testing.assert_close(losses[row, :length], own)
        assert mean_and_max(losses, mask)[row].item() == pytest.approx(own.mean().item())
        found = mean_and_max(losses, mask, 2.0)[row].item()
        assert found == pytest.approx((own.mean() + 2 * own.max()).item())
    assert losses[1, 2:].tolist() == [0, 0]


def test_the_largest_loss_presses_on_the_worst_token() -> None:
    """The sign of eq. 13: a larger λ makes the worst token's gradient larger, and no other's."""
    losses = torch.tensor([[0.5, 2.0, 1.0]], requires_grad=True)
    mask = torch.ones(1, 3, dtype=torch.bool)
    plain, pressed = (torch.autograd.grad(mean_and_max(losses, mask, weight).sum(), losses)[0] for weight in (0.0, 2.0))
    assert (pressed - plain)[0].tolist() == pytest.approx([0.0, 2.0, 0.0])
