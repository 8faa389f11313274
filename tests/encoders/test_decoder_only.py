"""A decoder-only architecture that reads in both directions, as an encoder: trained, saved, loaded, used."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nershift.config import EncoderConfig, build
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.encoders.base import make_encoder
from nershift.encoders.decoder_only import is_decoder_only, reads_both_ways, save_config
from nershift.encoders.transformer import TransformerEncoder, load_pretrained, special_around
from nershift.run import adapt, pretrain, transfer
from nershift.tagger.tagger import Tagger

sys.path.insert(0, str(Path(__file__).parents[1]))
from tiny_encoders import make_encoder_folder

transformers = pytest.importorskip("transformers")

ROWS = [
    ["Ada", "flew", "from", "Leeds", "to", "Porto", "."],
    ["Lima"],
    ["In", "Graz", ",", "Lindqvist", "met", "Moreau", "Tanaka", "."],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder_folder("gemma", tmp_path_factory.mktemp("gemma"))


def encoder_of(folder: Path, **settings: Any) -> TransformerEncoder:
    values = {"kind": "transformer", "transformer": {"name": str(folder), **settings}, "chars": {"use": False}}
    encoder = make_encoder(build(EncoderConfig, values), [Sentence.of(row) for row in ROWS])
    assert encoder.kind == "transformer"
    return encoder.eval()  # type: ignore[return-value]


@torch.no_grad()
def states(encoder: TransformerEncoder, rows: list[list[str]]) -> torch.Tensor:
    return encoder(**encoder.collate([encoder.prepare(row) for row in rows]))


def test_states_are_those_of_first_sub_words_behind_one_special_one(folder: Path) -> None:
    encoder, (model, tokenizer) = encoder_of(folder), load_pretrained(str(folder))
    assert (encoder.before, encoder.after) == ((tokenizer.bos_token_id,), ())
    together = states(encoder, ROWS)
    for row, found in zip(ROWS, together, strict=True):
        ids, first = [tokenizer.bos_token_id], []
        for word in row:
            first.append(len(ids))
            ids += tokenizer(word, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            expected = model.eval()(input_ids=torch.tensor([ids])).last_hidden_state[0, first]
        torch.testing.assert_close(found[: len(row)], expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(found[: len(row)], states(encoder, [row])[0], atol=1e-5, rtol=0)


def test_special_sub_words_of_other_families_stay_where_they_are(tmp_path: Path) -> None:
    for kind in ("bert", "roberta"):
        _, tokenizer = load_pretrained(str(make_encoder_folder(kind, tmp_path / kind)))
        assert special_around(tokenizer) == ((tokenizer.cls_token_id,), (tokenizer.sep_token_id,))


def test_a_word_knows_what_comes_after_it(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        encoder = encoder_of(folder)
    assert not caplog.records
    assert encoder.decoder_only
    pair = encoder.frame.unknown, encoder.pad
    assert reads_both_ways(encoder.model, pair)
    forwards = make_encoder_folder("gemma-causal", tmp_path / "causal")
    with caplog.at_level(logging.WARNING):
        other = encoder_of(forwards)
    assert "reads forwards only" in caplog.text
    assert not reads_both_ways(other.model, pair)
    bert, _ = load_pretrained(str(make_encoder_folder("bert", tmp_path / "bert")))
    assert not is_decoder_only(bert)
    assert reads_both_ways(bert, (2, 3))


def test_long_sentences_go_through_windows(folder: Path) -> None:
    encoder = encoder_of(folder, max_subwords=16, overlap=6)
    row = ROWS[2] * 4
    pieces = encoder.prepare(row)
    assert len(pieces.ids) > 2
    assert all(ids[0] == encoder.before[0] and len(ids) <= 16 for ids in pieces.ids)
    assert states(encoder, [row]).shape == (1, len(row), 16)


@pytest.mark.parametrize("old", [False, True])
def test_saving_and_loading_again_changes_nothing(
    old: bool, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with versions of transformers that halve the window of attention whenever they read it."""
    encoder = encoder_of(folder)
    expected = states(encoder, ROWS * 2)
    if old:
        plain = transformers.PretrainedConfig.to_dict
        monkeypatch.setattr(transformers.Gemma3TextConfig, "to_dict", lambda self: plain(self))
    config = encoder.model.config
    for turn in range(3):
        save_config(config, tmp_path / str(turn))
        again = transformers.AutoConfig.from_pretrained(tmp_path / str(turn))
        assert again.sliding_window == config.sliding_window
        config = again
    model = transformers.AutoModel.from_config(config)
    model.load_state_dict(encoder.model.state_dict())
    encoder.model = model.eval()
    torch.testing.assert_close(states(encoder, ROWS * 2), expected, atol=1e-6, rtol=0)


def test_layers_and_embeddings_freeze(folder: Path) -> None:
    encoder = encoder_of(folder, freeze_layers=2, freeze_embeddings=True)
    encoder(**encoder.collate([encoder.prepare(row) for row in ROWS])).sum().backward()
    learns = [any(p.grad is not None for p in layer.parameters()) for layer in encoder.layers()]
    assert learns == [False, False, True]
    assert all(p.grad is None for p in encoder.word_parameters())


def test_it_is_trained_saved_and_used(
    folder: Path, make_corpus: Callable[..., Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    corpus = make_corpus("news", train=60)
    tiny["encoder"] |= {"kind": "transformer", "transformer": {"name": str(folder)}}
    tiny["train"] |= {"epochs": 8, "optimizer": "adamw", "schedule": "linear", "warmup": 0.1, "lr": 0.01}
    run = transfer("target_only", corpus, out=tmp_path / "run", config=tiny, quiet=True)
    assert run.f1 > 0.6
    loaded = Tagger.load(tmp_path / "run")
    assert loaded.tag_sentences(corpus.test) == run.predictions()[1]
    loaded.save(tmp_path / "again")
    assert Tagger.load(tmp_path / "again").tag_sentences(corpus.test) == run.predictions()[1]
    few = {**tiny, "train": {**tiny["train"], "epochs": 1}}
    start = pretrain("finetune", [corpus], out=tmp_path / "start", config=few, quiet=True)
    adapted = adapt(start, make_corpus("clinic"), out=tmp_path / "adapted", config=few, quiet=True)
    assert adapted.tagger().types == ("drug", "person", "place")
