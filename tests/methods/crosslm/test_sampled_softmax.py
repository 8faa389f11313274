"""The sampled softmax against loops, the full softmax and a known distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from nershift.methods.crosslm.sampled_softmax import SampledSoftmax, language_model_loss
from nershift.text.counts import BOUNDARY

FREQUENCIES = np.array([0.05, 0.2, 0.4, 0.2, 0.1, 0.05])


def head(negatives: int = 7, correct: bool = True, size: int = 3) -> SampledSoftmax:
    torch.manual_seed(0)
    made = SampledSoftmax(size, FREQUENCIES, negatives, correct)
    torch.nn.init.normal_(made.bias)
    return made


@pytest.mark.parametrize("correct", [True, False])
def test_losses_are_those_of_eqs_5_and_6_written_out(correct: bool) -> None:
    made = head(correct=correct)
    states, targets = torch.randn(40, 3), torch.randint(6, (40,))
    torch.manual_seed(1)
    found = made(states, targets)
    torch.manual_seed(1)
    drawn = {int(word) for word in made.draw()[0]}
    assert drawn & set(targets.tolist())  # some negatives are right answers elsewhere

    def score(state: torch.Tensor, word: int) -> float:
        total = (made.weight[word] @ state + made.bias[word]).item()
        return total - math.log(1 - (1 - FREQUENCIES[word]) ** 7) if correct else total

    for state, target, loss in zip(states, targets.tolist(), found, strict=True):
        z = sum(math.exp(score(state, word)) for word in {target} | drawn)
        assert loss.item() == pytest.approx(math.log(z) - score(state, target), abs=1e-4)


def test_negatives_come_by_word_frequency_and_repeated_ones_count_once() -> None:
    made = SampledSoftmax(2, FREQUENCIES, negatives=60_000)
    words, repeated = made.draw()
    share = torch.bincount(words, minlength=6) / 60_000
    np.testing.assert_allclose(share.numpy(), FREQUENCIES, atol=0.01)
    assert int((~repeated).sum()) == len(set(words.tolist())) == 6
    torch.manual_seed(0)
    few = SampledSoftmax(2, FREQUENCIES, negatives=3)
    included = sum(torch.bincount(w[~r], minlength=6) for w, r in (few.draw() for _ in range(4000))) / 4000
    np.testing.assert_allclose(included.numpy(), few.log_drawn.exp().numpy(), atol=0.03)


def test_with_every_word_drawn_it_is_the_full_softmax() -> None:
    made = head(negatives=5000)
    states, targets = torch.randn(20, 3), torch.randint(6, (20,))
    torch.testing.assert_close(made(states, targets), made.exact(states, targets), atol=1e-4, rtol=1e-4)
    logits = states @ made.weight.T + made.bias
    expected = torch.logsumexp(logits, 1) - logits[torch.arange(20), targets]
    torch.testing.assert_close(made.exact(states, targets), expected)


def test_corrected_it_learns_the_distribution_of_the_words() -> None:
    """And not that divided by how often words are drawn, as without the correction."""
    truth = torch.tensor([0.1, 0.1, 0.3, 0.3, 0.15, 0.05])
    learned = {}
    for correct in (True, False):
        torch.manual_seed(0)
        made, mean = SampledSoftmax(1, FREQUENCIES, 2, correct), torch.zeros(6)
        optimizer = torch.optim.Adam([made.bias], lr=0.05)
        for step in range(600):
            loss = made(torch.zeros(200, 1), torch.multinomial(truth, 200, replacement=True)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step >= 200:
                mean += made.bias.detach() / 400
        learned[correct] = mean.softmax(0)
    torch.testing.assert_close(learned[True], truth, atol=0.03, rtol=0)
    assert (learned[False] - truth).abs().max() > 0.05


def test_the_loss_of_both_directions_is_eq_8_written_out() -> None:
    made = head(negatives=5000)
    sentences = [[2, 3, 4, 2], [5], [3, 2]]
    mask = torch.arange(4) < torch.tensor([4, 1, 2])[:, None]
    words = torch.full((3, 4), BOUNDARY)
    for row, ids in zip(words, sentences, strict=True):
        row[: len(ids)] = torch.tensor(ids)
    states = torch.randn(3, 4, 6)
    total = 0.0
    for b, ids in enumerate(sentences):
        for t in range(len(ids)):
            after = ids[t + 1] if t + 1 < len(ids) else BOUNDARY
            before = ids[t - 1] if t else BOUNDARY
            for part, word in ((states[b, t, :3], after), (states[b, t, 3:], before)):
                total += made.exact(part[None], torch.tensor([word])).item()
    found = language_model_loss(made, states, words, mask)
    assert found.item() == pytest.approx(total / 2 / 3, abs=1e-3)
    states.requires_grad_()
    language_model_loss(made, states, words, mask).backward()
    assert states.grad is not None
    assert not states.grad[~mask].any()
    assert states.grad[mask].any(-1).all()
