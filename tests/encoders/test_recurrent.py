from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nershift.config import EncoderConfig, build
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.encoders.base import make_encoder, rebuild_encoder
from nershift.encoders.recurrent import RecurrentEncoder

MakeCorpus = Callable[..., Corpus]
ROWS = [
    ["Ada", "left", "Porto", "."],
    ["1998"],
    ["In", "Leeds", "Leeds", "Leeds", ",", "supercalifragilistic", "Okafor", "spoke", "."],
    ["neverseen", "Ünknown"],
]


def _encoder(**settings: Any) -> RecurrentEncoder:
    torch.manual_seed(0)
    values = {
        "words": {"size": 7},
        "chars": {"size": 4, "filters": 6, "widths": [2, 3], "max_length": 10},
        "recurrent": {"size": 5, **settings.pop("recurrent", {})},
        **settings,
    }
    encoder = make_encoder(build(EncoderConfig, values), [Sentence.of(row) for row in ROWS[:3]])
    assert isinstance(encoder, RecurrentEncoder)
    return encoder.eval()


def _states(encoder: RecurrentEncoder, rows: list[list[str]]) -> torch.Tensor:
    return encoder(**encoder.collate([encoder.prepare(row) for row in rows]))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("chars", [True, False])
def test_a_ragged_batch_equals_its_sentences_one_by_one(cell: str, layers: int, chars: bool) -> None:
    encoder = _encoder(recurrent={"cell": cell, "layers": layers})
    if not chars:
        encoder = _encoder(recurrent={"cell": cell, "layers": layers}, chars={"use": False})
    together = _states(encoder, ROWS)
    assert together.shape == (4, 9, 10)
    for row, states in zip(ROWS, together, strict=True):
        torch.testing.assert_close(states[: len(row)], _states(encoder, [row])[0], atol=1e-6, rtol=0)
        assert not states[len(row) :].any()


def test_once_a_distinct_word_equals_every_token_on_its_own() -> None:
    encoder = _encoder()
    inputs = encoder.collate([encoder.prepare(row) for row in ROWS])
    shared = encoder.embed(inputs["rows"], inputs["chars"], inputs["where"])
    assert len(inputs["rows"]) == len({token for row in ROWS for token in row})
    for b, row in enumerate(ROWS):
        for i, token in enumerate(row):
            one = encoder.collate([encoder.prepare([token])])
            alone = encoder.embed(one["rows"], one["chars"], one["where"])[0, 0]
            torch.testing.assert_close(shared[b, i], alone, atol=1e-6, rtol=0)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_gradients_of_a_batch_are_the_sum_over_its_sentences(cell: str) -> None:
    encoder = _encoder(recurrent={"cell": cell, "layers": 2})
    torch.manual_seed(1)
    weights = torch.randn(10)
    (_states(encoder, ROWS) @ weights).sin().sum().backward()
    together = {n: p.grad.clone() for n, p in encoder.named_parameters() if p.grad is not None}
    encoder.zero_grad()
    for row in ROWS:
        (_states(encoder, [row]) @ weights).sin().sum().backward()
    for name, p in encoder.named_parameters():
        torch.testing.assert_close(p.grad, together[name], atol=2e-5, rtol=1e-4)


def test_order_of_sentences_does_not_matter() -> None:
    encoder = _encoder()
    forward, backward = _states(encoder, ROWS), _states(encoder, ROWS[::-1])
    torch.testing.assert_close(forward, backward.flip(0), atol=1e-6, rtol=0)


def test_new_words_and_letters_are_learnt_without_moving_the_old() -> None:
    encoder = _encoder()
    before = _states(encoder, ROWS[:3])
    encoder.learn_words(["Ünknown", "neverseen", "Ada"])
    torch.testing.assert_close(_states(encoder, ROWS[:3]), before, atol=1e-6, rtol=0)
    assert encoder.words.vocabulary.find("neverseen") > 1
    assert "Ü" in encoder.characters.index
    assert encoder.chars is not None
    assert len(encoder.chars.embedding.weight) == len(encoder.characters)


def test_forgetting_starts_a_new_cache_with_the_same_states() -> None:
    encoder = _encoder()
    before = _states(encoder, ROWS)
    encoder.forget_beyond(10**6)
    assert len(encoder.word_cache) > 10
    encoder.forget_beyond(10)
    assert len(encoder.word_cache) == 1
    assert torch.equal(_states(encoder, ROWS), before)


def test_dropout_is_off_in_evaluation_and_on_in_training() -> None:
    encoder = _encoder(dropout=0.5, input_dropout=0.2)
    assert torch.equal(_states(encoder, ROWS), _states(encoder, ROWS))
    encoder.train()
    assert not torch.equal(_states(encoder, ROWS), _states(encoder, ROWS))


def test_rebuilt_from_its_description(make_corpus: MakeCorpus) -> None:
    encoder = _encoder(dropout=0.3)
    encoder.learn_words(["Ünknown"])
    again = rebuild_encoder(encoder.describe(), "folder")
    again.load_state_dict(encoder.state_dict())
    assert again.config == encoder.config
    assert torch.equal(_states(again.eval(), ROWS), _states(encoder, ROWS))


def test_what_an_encoder_says_of_itself() -> None:
    class Plain(RecurrentEncoder):
        pass

    class Other(RecurrentEncoder):
        def forward(self, **inputs: Tensor) -> Tensor:
            return super().forward(**inputs)

    assert isinstance(vars(RecurrentEncoder)["cuda_graph_safe"], property)
    assert Plain.cuda_graph_safe is RecurrentEncoder.cuda_graph_safe
    assert not Other.cuda_graph_safe  # it would have to say so again
    encoder = _encoder()
    assert encoder.exportable
    assert not encoder.pretrained
    assert encoder.cost(encoder.config).sequential
