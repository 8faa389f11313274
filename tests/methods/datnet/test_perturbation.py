from __future__ import annotations

from typing import Any

import pytest
import torch

from nershift.config import EncoderConfig, build
from nershift.data.spans import Sentence
from nershift.encoders.base import make_encoder
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.methods.datnet.perturbation import Features, Perturbation, fgm

ROWS = [
    ["Ada", "left", "Porto", "."],
    ["1998"],
    ["In", "Leeds", "Leeds", "Leeds", ",", "supercalifragilistic", "Okafor", "."],
]


def _encoder(train_words: bool = False, chars: bool = True, **settings: Any) -> RecurrentEncoder:
    torch.manual_seed(0)
    values = {
        "words": {"size": 7, "train": train_words},
        "chars": {"use": chars, "size": 4, "filters": 10, "widths": [1, 2, 3], "max_length": 10},
        "recurrent": {"cell": "lstm", "size": 5},
        "dropout": 0.0,
        **settings,
    }
    encoder = make_encoder(build(EncoderConfig, values), [Sentence.of(row) for row in ROWS])
    assert isinstance(encoder, RecurrentEncoder)
    return encoder.double()


def _inputs(encoder: RecurrentEncoder, rows: list[list[str]] = ROWS) -> dict[str, torch.Tensor]:
    return encoder.collate([encoder.prepare(row) for row in rows])


def clean_of(encoder: RecurrentEncoder, inputs: dict[str, torch.Tensor]) -> Features:
    return Features.clean(encoder.chars, encoder.words(inputs["rows"]), inputs)


def perturbed_of(encoder: RecurrentEncoder, inputs: dict[str, torch.Tensor], eta: Perturbation) -> Features:
    return Features.perturbed(encoder.chars, encoder.words(inputs["rows"]), inputs, eta)


def states_of(encoder: RecurrentEncoder, inputs: dict[str, torch.Tensor], features: Features) -> torch.Tensor:
    return encoder.contextualise(features.joined(encoder), inputs["lengths"])


def _loss(states: torch.Tensor) -> torch.Tensor:
    return (states * torch.arange(states[0].numel()).view(states.shape[1:]).sin()).sum().tanh()


@pytest.mark.parametrize("chars", [True, False])
def test_clean_features_give_the_states_of_the_encoder(chars: bool) -> None:
    encoder = _encoder(chars=chars)
    inputs = _inputs(encoder)
    torch.testing.assert_close(states_of(encoder, inputs, clean_of(encoder, inputs)), encoder(**inputs))


@pytest.mark.parametrize("train_words", [True, False])
def test_perturbations_are_the_gradients_of_token_vectors_with_one_norm_a_sentence(train_words: bool) -> None:
    """Against autograd on word and character vectors that are spread out token by token."""
    encoder = _encoder(train_words)
    inputs = _inputs(encoder)
    where, cnn = inputs["where"], encoder.chars
    assert cnn is not None
    words = encoder.words(inputs["rows"])[where].detach().requires_grad_()
    spelled = cnn.embedding(inputs["chars"])[where].detach().requires_grad_()
    letters = (inputs["chars"] != 0)[where]
    read = cnn.convolve(spelled.flatten(0, 1), letters.flatten(0, 1)).view(*where.shape, -1)
    states = encoder.contextualise(torch.cat([words, read], -1), inputs["lengths"])
    expected = torch.autograd.grad(_loss(states), [words, spelled])
    features = clean_of(encoder, inputs)
    _loss(states_of(encoder, inputs, features)).backward()
    eta = Perturbation.against(encoder.chars, inputs, features, 3.0, 0.5)
    for found, gradient, epsilon in zip((eta.words, eta.chars), expected, (3.0, 0.5), strict=True):
        norms = gradient.flatten(1).norm(dim=1).view(-1, *[1] * (gradient.dim() - 1))
        assert found is not None
        torch.testing.assert_close(found, epsilon * gradient / norms)
        torch.testing.assert_close(found.flatten(1).norm(dim=1), torch.full((3,), epsilon).double())
        assert not found.requires_grad


def test_perturbations_leave_padding_and_what_is_no_letter_alone() -> None:
    encoder = _encoder()
    inputs = _inputs(encoder)
    features = clean_of(encoder, inputs)
    _loss(states_of(encoder, inputs, features)).backward()
    eta = Perturbation.against(encoder.chars, inputs, features, 1.0, 1.0)
    assert eta.chars is not None
    assert not eta.words[~inputs["mask"]].any()
    assert not eta.chars[~(inputs["chars"] != 0)[inputs["where"]]].any()


def test_the_same_word_is_perturbed_apart_in_two_places() -> None:
    encoder = _encoder()
    inputs = _inputs(encoder)
    features = clean_of(encoder, inputs)
    _loss(states_of(encoder, inputs, features)).backward()
    eta = Perturbation.against(encoder.chars, inputs, features, 1.0, 1.0)
    assert eta.chars is not None
    assert not torch.allclose(eta.words[2, 1], eta.words[2, 2])
    assert not torch.allclose(eta.chars[2, 1], eta.chars[2, 2])


@pytest.mark.parametrize("chars", [True, False])
def test_perturbing_raises_the_loss_as_far_as_the_gradient_says(chars: bool) -> None:
    """Finite differences: a small ε raises the loss by ε times the norms of the gradients."""
    encoder, epsilon = _encoder(chars=chars), 1e-5
    inputs = _inputs(encoder, ROWS[:1])
    features = clean_of(encoder, inputs)
    clean = _loss(states_of(encoder, inputs, features))
    clean.backward()
    eta = Perturbation.against(encoder.chars, inputs, features, epsilon, 0.0)
    perturbed = _loss(states_of(encoder, inputs, perturbed_of(encoder, inputs, eta)))
    assert features.words.grad is not None
    expected = epsilon * float(features.words.grad.norm())
    assert (perturbed - clean).item() == pytest.approx(expected, rel=1e-2)
    if chars:
        eta = Perturbation.against(encoder.chars, inputs, features, 0.0, epsilon)
        again = _loss(states_of(encoder, inputs, perturbed_of(encoder, inputs, eta)))
        assert (again - clean).item() > 0


def test_tables_learn_from_perturbed_inputs_and_frozen_words_do_not() -> None:
    for train in (True, False):
        encoder = _encoder(train)
        inputs = _inputs(encoder)
        features = clean_of(encoder, inputs)
        _loss(states_of(encoder, inputs, features)).backward()
        eta = Perturbation.against(encoder.chars, inputs, features, 1.0, 1.0)
        encoder.zero_grad()
        _loss(states_of(encoder, inputs, perturbed_of(encoder, inputs, eta))).backward()
        assert encoder.chars is not None
        assert encoder.chars.embedding.weight.grad is not None
        assert (encoder.words.weight.grad is not None) == train


def test_directions_of_zero_and_of_tiny_gradients() -> None:
    g = torch.tensor([[0.0, 0.0], [3e-30, 4e-30], [3.0, 4.0]])
    torch.testing.assert_close(fgm(g, 5.0), torch.tensor([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]]))


def test_each_sentence_may_have_an_epsilon_of_its_own() -> None:
    found = fgm(torch.tensor([[3.0, 4.0], [3.0, 4.0]]), torch.tensor([5.0, 10.0]))
    torch.testing.assert_close(found, torch.tensor([[3.0, 4.0], [6.0, 8.0]]))
