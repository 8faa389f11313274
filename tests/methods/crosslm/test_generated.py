"""Generated weights against ordinary LSTMs and against the contraction written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nershift.methods.crosslm.generated import LSTMGenerator

AXES = {"domain": ["a", "b", "c"], "task": ["ner", "lm"]}
PLACES = [{"domain": d, "task": t} for d in AXES["domain"] for t in AXES["task"]]


def lstm(features: int = 5, hidden: int = 4, layers: int = 1) -> nn.LSTM:
    return nn.LSTM(features, hidden, layers, batch_first=True, bidirectional=True)


def ordinary(module: nn.LSTM, x: Tensor, lengths: Tensor, weights: dict[str, Tensor] | None = None) -> Tensor:
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    out = functional_call(module, weights, (packed,)) if weights else module(packed)
    return pad_packed_sequence(out[0], batch_first=True, total_length=x.shape[1])[0]


@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0])
def test_initial_weights_have_the_variance_of_an_ordinary_lstm(spread: float) -> None:
    torch.manual_seed(0)
    plain = lstm(150, 100)
    usual = torch.cat([p.flatten() for p in plain.parameters()])
    generator = LSTMGenerator(plain, AXES, 8, {"domain": spread, "task": spread})
    for weights in generator(PLACES):
        assert weights.numel() == usual.numel() == 201_600
        assert weights.var().item() == pytest.approx(1 / 300, rel=0.02)
        assert weights.var().item() == pytest.approx(usual.var().item(), rel=0.02)
        assert abs(weights.mean().item()) < 1e-3


@pytest.mark.parametrize("layers", [1, 2])
def test_a_written_lstm_runs_as_the_generated_one(layers: int) -> None:
    torch.manual_seed(0)
    plain = lstm(layers=layers)
    generator = LSTMGenerator(plain, AXES, 3)
    x, lengths = torch.randn(4, 6, 5), torch.tensor([2, 6, 1, 4])
    seen = []
    for place, weights in zip(PLACES, generator(PLACES), strict=True):
        states = generator.run(x, lengths, weights)
        generator.write(plain, place)
        torch.testing.assert_close(states, ordinary(plain, x, lengths))
        assert not states[0, 2:].any()
        seen.append(states)
    assert not torch.allclose(seen[0], seen[1])


def test_weights_and_gradients_are_those_of_the_tensor_contraction() -> None:
    """Eq. 2 as it stands: W of shape P x V x U, contracted with both vectors."""
    torch.manual_seed(0)
    plain = lstm().double()
    generator = LSTMGenerator(plain, AXES, 3).double()
    domains, tasks = (v.detach().clone().requires_grad_() for v in generator.vectors)
    w = generator.weight.detach().view(3, 3, -1).permute(2, 1, 0).clone().requires_grad_()  # [P, V, U]
    x, lengths = torch.randn(2, 4, 5, dtype=torch.double), torch.tensor([4, 2])
    places = [PLACES[1], PLACES[2]]
    total = sum(generator.run(x, lengths, weights).sin().sum() for weights in generator(places))
    expected = torch.zeros((), dtype=torch.double)
    for place in places:
        d, t = AXES["domain"].index(place["domain"]), AXES["task"].index(place["task"])
        theta = torch.einsum("pvu,u,v->p", w, domains[d], tasks[t])
        expected = expected + ordinary(plain, x, lengths, generator.named(theta)).sin().sum()
    torch.testing.assert_close(total, expected)
    total.backward()
    expected.backward()
    torch.testing.assert_close(generator.vectors[0].grad, domains.grad)
    torch.testing.assert_close(generator.vectors[1].grad, tasks.grad)
    torch.testing.assert_close(generator.weight.grad, w.grad.permute(2, 1, 0).flatten(0, 1))


def test_nearness_of_places_is_a_product_over_the_axes() -> None:
    torch.manual_seed(0)
    gram = torch.zeros(6, 6)
    for _ in range(300):
        made = LSTMGenerator(lstm(1, 1), AXES, 8, {"domain": 0.1, "task": 0.5}).coefficients(PLACES)
        gram += made.detach() @ made.detach().T / 300
    near, far = 0.9, 0.5
    assert gram.diagonal().tolist() == pytest.approx([1.0] * 6, abs=1e-5)
    assert gram[0, 1].item() == pytest.approx(far, abs=0.03)  # another task
    assert gram[0, 2].item() == pytest.approx(near, abs=0.03)  # another domain
    assert gram[0, 3].item() == pytest.approx(near * far, abs=0.03)


def test_axes_that_are_not_there_have_no_effect() -> None:
    torch.manual_seed(0)
    by_task = LSTMGenerator(lstm(), {"task": ["ner", "lm"]}, 4)
    weights = by_task(PLACES)
    assert torch.equal(weights[0], weights[2])
    assert not torch.equal(weights[0], weights[1])
    shared = LSTMGenerator(lstm(), {})
    assert torch.equal(shared(PLACES)[3], shared.weight[0])
    assert len(shared.weight) == 1


def test_weights_of_a_place_lie_in_memory_as_cudnn_keeps_them() -> None:
    """All matrices, then all biases, from the start of a memory of their own."""
    plain = lstm()
    generator = LSTMGenerator(plain, AXES, 3)
    for weights in generator(PLACES):
        assert weights.storage_offset() == 0
        assert weights.untyped_storage().nbytes() == 4 * weights.numel()
        parts = generator.named(weights)
        assert all(part.is_contiguous() for part in parts.values())
        at = 0
        for kinds in (("weight_ih", "weight_hh"), ("bias_ih", "bias_hh")):
            for end in ("_l0", "_l0_reverse"):
                for kind in kinds:
                    assert parts[kind + end].storage_offset() == at
                    at += parts[kind + end].numel()
