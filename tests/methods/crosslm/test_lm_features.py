from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nershift.config import EncoderConfig, build
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence
from nershift.encoders.base import make_encoder
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.heads.base import make_head
from nershift.methods.crosslm.lm_features import LMFeatureEncoder
from nershift.model import TaggingModel
from nershift.model_store import load_model, save_model

ROWS = [["Ada", "left", "Porto", "."], ["unheard", "of"], ["Ada"]]


def plain(words: list[list[str]], size: int) -> RecurrentEncoder:
    shape = {
        "words": {"size": 6},
        "chars": {"size": 3, "filters": 4},
        "recurrent": {"cell": "lstm", "size": size},
    }
    made = make_encoder(build(EncoderConfig, shape | {"dropout": 0.5}), [Sentence.of(row) for row in words])
    assert isinstance(made, RecurrentEncoder)
    return made


@pytest.fixture
def encoder() -> LMFeatureEncoder:
    torch.manual_seed(0)
    return LMFeatureEncoder.over(plain(ROWS[:1], 5), plain(ROWS[1:], 7))


def states(encoder: RecurrentEncoder, rows: list[list[str]]) -> torch.Tensor:
    return encoder(**encoder.collate([encoder.prepare(row) for row in rows]))


def test_features_are_the_states_of_the_language_model(encoder: LMFeatureEncoder) -> None:
    encoder.eval()
    found = states(encoder, ROWS)
    assert found.shape == (3, 4, 10)
    own = encoder.collate([encoder.prepare(row) for row in ROWS])
    x = encoder.embed(own["rows"], own["chars"], own["where"])
    expected = encoder.contextualise(torch.cat([x, states(encoder.lm, ROWS)], -1), own["lengths"])
    torch.testing.assert_close(found, expected)
    for row, mine in zip(ROWS, found, strict=True):
        torch.testing.assert_close(mine[: len(row)], states(encoder, [row])[0], atol=1e-6, rtol=0)


def test_the_language_model_neither_learns_nor_drops(encoder: LMFeatureEncoder) -> None:
    encoder.train()
    assert not encoder.lm.training
    states(encoder, ROWS).sum().backward()
    assert all(p.grad is None for p in encoder.lm.parameters())
    others = [p for n, p in encoder.named_parameters() if not n.startswith("lm.")]
    assert all(p.grad is not None for p in others)
    assert encoder.scale.grad is not None


def test_saved_and_loaded(encoder: LMFeatureEncoder, tmp_path: Path) -> None:
    model = TaggingModel(encoder, {"target": make_head("crf", LabelSpace.of(["x"]), encoder.size)}).eval()
    encoder.learn_words(["unheard"])
    save_model(tmp_path, model, {})
    again, _ = load_model(tmp_path)
    rows = [Sentence.of(row) for row in ROWS]
    assert isinstance(again.encoder, LMFeatureEncoder)
    assert torch.equal(states(again.encoder, ROWS), states(encoder, ROWS))
    assert again.predict("target", rows) == model.predict("target", rows)
    encoder.forget_beyond(1)
    assert len(encoder.word_cache) == len(encoder.lm.word_cache) == 1
