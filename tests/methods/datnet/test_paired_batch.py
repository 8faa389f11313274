from __future__ import annotations

import pytest
import torch

from nershift.config import EncoderConfig, build
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.encoders.words import WordTable
from nershift.methods.datnet.paired_batch import PairedBatch
from nershift.methods.datnet.shared_private import make_pair, shared_part
from nershift.text.word_cache import Vocabulary

ROWS = {
    "target": [["Ada", "left"], ["supercalifragilistic", "Leeds", "Leeds", "."]],
    "source": [["One", "two", "three", "four", "five", "six"], ["Oslo"], ["In", "Oslo", "."]],
}


def encoder_pair(private: bool, shared_words: bool, chars: bool = True) -> dict[str, RecurrentEncoder]:
    torch.manual_seed(0)
    values = {
        "words": {"size": 7, "train": False, "lower": False},
        "chars": {"use": chars, "size": 4, "filters": 9, "widths": [2, 3], "max_length": 12},
        "recurrent": {"cell": "lstm", "size": 5},
        "dropout": 0.0,
    }
    config = build(EncoderConfig, values)
    words = {name: sorted({t for row in rows for t in row}) for name, rows in ROWS.items()}
    letters = Vocabulary(sorted({c for rows in words.values() for w in rows for c in w}))
    both = sorted({*words["target"], *words["source"]})
    target = WordTable(config.words, both if shared_words else words["target"], (), 7)
    source = target if shared_words else WordTable(config.words, words["source"], (), 7)
    ours, theirs = make_pair(config, target, source, letters, private=private)
    return {"target": ours.double(), "source": theirs.double()}


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("shared_words", [True, False])
@pytest.mark.parametrize("chars", [True, False])
def test_one_pass_gives_what_each_encoder_gives_alone(private: bool, shared_words: bool, chars: bool) -> None:
    encoders = encoder_pair(private, shared_words, chars)
    inputs = {name: e.collate([e.prepare(row) for row in ROWS[name]]) for name, e in encoders.items()}
    pair = PairedBatch([(encoders[name], inputs[name]) for name in ROWS])
    shared, states = pair.states(pair.features(keep_gradients=True))
    assert shared.shape[:2] == pair.mask.shape == (5, 6)
    for name, side, found in zip(ROWS, pair.sides, states, strict=True):
        expected = encoders[name](**inputs[name])
        torch.testing.assert_close(found, expected)
        own = shared[side.at, : side.width]
        torch.testing.assert_close(own, shared_part(encoders[name], expected))
        assert torch.equal(pair.mask[side.at, : side.width], inputs[name]["mask"])
        assert not shared[side.at, side.width :].any()


def test_sides_are_perturbed_by_their_own_epsilons() -> None:
    encoders = encoder_pair(private=True, shared_words=False)
    inputs = [(e, e.collate([e.prepare(row) for row in ROWS[name]])) for name, e in encoders.items()]
    pair = PairedBatch(inputs)
    clean = pair.features(keep_gradients=True)
    torch.stack([s.square().sum() for s in pair.states(clean)[1]]).sum().backward()
    eta = pair.perturbation(clean, [2.0, 3.0], 0.5)
    expected = torch.tensor([2.0] * 2 + [3.0] * 3, dtype=torch.double)
    torch.testing.assert_close(eta.words.flatten(1).norm(dim=1), expected)
    assert eta.chars is not None
    torch.testing.assert_close(eta.chars.flatten(1).norm(dim=1), torch.full((5,), 0.5).double())
    assert pair.perturbed_features(eta).words.shape == clean.words.shape
