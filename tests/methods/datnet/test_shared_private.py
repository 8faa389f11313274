from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from nershift.config import EncoderConfig, WordsConfig, build
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.encoders.words import make_words
from nershift.heads.base import make_head
from nershift.methods.datnet.shared_private import SharedPrivateEncoder, make_pair, shared_part, shared_size
from nershift.model import TaggingModel
from nershift.model_store import load_model, save_model
from nershift.text.word_cache import Vocabulary

ROWS = [["Ada", "left", "Porto", "."], ["1998"], ["In", "Leeds", ",", "Okafor", "spoke", "."]]


def _pair(private: bool) -> tuple[RecurrentEncoder, RecurrentEncoder]:
    torch.manual_seed(0)
    values = {
        "chars": {"size": 4, "filters": 6, "widths": [2, 3]},
        "recurrent": {"cell": "lstm", "size": 5},
    }
    tables = [make_words(WordsConfig(size=7), Counter(w for row in ROWS for w in row)) for _ in range(2)]
    letters = Vocabulary(sorted({c for row in ROWS for w in row for c in w}))
    ours, theirs = make_pair(build(EncoderConfig, values), *tables, letters, private=private)
    return ours.eval(), theirs.eval()


def _states(encoder: RecurrentEncoder) -> torch.Tensor:
    return encoder(**encoder.collate([encoder.prepare(row) for row in ROWS]))


def test_states_are_those_of_two_plain_encoders_side_by_side() -> None:
    ours, _ = _pair(private=True)
    assert isinstance(ours, SharedPrivateEncoder)
    both = _states(ours)
    assert both.shape == (3, 6, 20)
    for layer, part in ((ours.private, both[..., :10]), (ours.recurrent, both[..., 10:])):
        plain = RecurrentEncoder(ours.config, ours.words, ours.characters).eval()
        plain.chars, plain.recurrent = ours.chars, layer
        torch.testing.assert_close(_states(plain), part)
    assert torch.equal(shared_part(ours, both), both[..., 10:])
    assert shared_size(ours) == 10


@pytest.mark.parametrize("private", [True, False])
def test_a_pair_shares_characters_and_one_layer_and_nothing_else(private: bool) -> None:
    ours, theirs = _pair(private)
    shared = {id(p) for p in ours.parameters()} & {id(p) for p in theirs.parameters()}
    assert ours.chars is not None
    assert shared == {id(p) for m in (ours.chars, ours.recurrent) for p in m.parameters()}
    assert shared_part(ours, _states(ours)).shape[-1] == shared_size(ours) == 10
    assert not torch.allclose(_states(ours), _states(theirs))


def test_the_adversary_cannot_reach_private_layers() -> None:
    ours, _ = _pair(private=True)
    shared_part(ours, _states(ours)).sum().backward()
    assert isinstance(ours, SharedPrivateEncoder)
    assert all(p.grad is None or not p.grad.any() for p in ours.private.parameters())
    assert all(p.grad is not None and p.grad.any() for p in ours.recurrent.parameters())


@pytest.mark.parametrize("private", [True, False])
def test_one_side_is_stored_and_loaded_on_its_own(tmp_path: Path, private: bool) -> None:
    ours, _ = _pair(private)
    model = TaggingModel(ours, {"target": make_head("crf", LabelSpace.of(["PER"]), ours.size)})
    save_model(tmp_path, model, {})
    again, _ = load_model(tmp_path)
    assert type(again.encoder) is type(ours)
    text = [Sentence.of(row) for row in ROWS]
    assert isinstance(again.encoder, RecurrentEncoder)
    assert torch.equal(_states(again.encoder), _states(ours))
    assert again.predict("target", text) == model.eval().predict("target", text)
