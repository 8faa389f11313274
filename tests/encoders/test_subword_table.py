from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from nershift.config import EncoderConfig, WordsConfig, build
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence
from nershift.encoders.base import make_encoder
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.encoders.subword_table import SubwordTable
from nershift.errors import CheckpointError, ConfigError
from nershift.heads.base import make_head
from nershift.model import TaggingModel
from nershift.model_store import load_model, save_model
from nershift.text.subword_vectors import SubwordVectors, read_subwords

MakeFolder = Callable[[str], Path]

ROWS = [["casa", "Madrid", "gobiernos"], ["198"], ["gobierno", "casas", "zzz", "Madrid"]]


@pytest.fixture
def vectors(encoder_folder: MakeFolder) -> SubwordVectors:
    return read_subwords(str(encoder_folder("e")), 4)


def _settings(folder: Path, **words: object) -> EncoderConfig:
    values = {
        "words": {"subwords": str(folder), "size": 4, "train": False, "lower": False, **words},
        "chars": {"size": 4, "filters": 6, "widths": [2, 3]},
        "recurrent": {"size": 5},
    }
    return build(EncoderConfig, values)


def test_every_word_has_its_mean_whenever_it_is_met(vectors: SubwordVectors) -> None:
    table = SubwordTable.of(WordsConfig(lower=False, train=False), vectors)
    for row in ROWS:
        found = table(torch.tensor([table.vocabulary.find(word) for word in row]))
        np.testing.assert_allclose(found, [vectors.vector(word) for word in row], atol=1e-3)
    assert not list(table.parameters())
    assert table.vocabulary.find("casa") == table.vocabulary.find("casa")
    assert table.vocabulary.find(" ") == table.vocabulary.find("") == 1
    np.testing.assert_allclose(table(torch.tensor([1]))[0], vectors.matrix[1], atol=1e-3)
    assert not table(torch.tensor([0])).any()  # padding


def test_case_is_dropped_when_asked(vectors: SubwordVectors) -> None:
    table = SubwordTable.of(WordsConfig(lower=True, train=False), vectors)
    assert table.vocabulary.find("CASA") == table.vocabulary.find("casa")


def test_dropped_words_become_the_unknown_one(vectors: SubwordVectors) -> None:
    table = SubwordTable.of(WordsConfig(word_dropout=1.0, lower=False, train=False), vectors).train()
    found = table(torch.tensor([table.vocabulary.find("casa")]))
    np.testing.assert_allclose(found[0], vectors.matrix[1], atol=1e-3)


def test_a_tagger_with_sub_words_is_stored_whole_and_knows_new_words(
    encoder_folder: MakeFolder, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    text = [Sentence.of(row) for row in ROWS]
    encoder = make_encoder(_settings(encoder_folder("e")), text[:1])
    model = TaggingModel(encoder, {"target": make_head("crf", LabelSpace.of(["LOC"]), encoder.size)}).eval()
    before = model.states(model.batch("target", text, [encoder.prepare(s.tokens) for s in text]))
    save_model(tmp_path / "model", model, {})
    for path in encoder_folder("e").iterdir():  # the encoder it came from is not needed
        path.unlink()
    again, _ = load_model(tmp_path / "model")
    assert isinstance(again.encoder, RecurrentEncoder)
    assert isinstance(again.encoder.words, SubwordTable)
    after = again.states(again.batch("target", text, [again.encoder.prepare(s.tokens) for s in text]))
    assert torch.equal(before, after)
    again.encoder.forget_beyond(2)
    assert len(again.encoder.words.vocabulary) == 2
    after = again.states(again.batch("target", text, [again.encoder.prepare(s.tokens) for s in text]))
    assert torch.equal(before, after)
    (tmp_path / "model" / "words.tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"words\.tokenizer\.json"):
        load_model(tmp_path / "model")


def test_learning_and_a_second_source_of_vectors_are_refused(encoder_folder: MakeFolder) -> None:
    folder = encoder_folder("e")
    for words in ({"train": True}, {"vectors": "v.txt"}):
        with pytest.raises(ConfigError) as caught:
            make_encoder(_settings(folder, **words), [Sentence.of(ROWS[0])])
        assert caught.value.place == "encoder.words.subwords"


def test_an_encoder_is_found_by_name(encoder_folder: MakeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NERSHIFT_ENCODERS", str(encoder_folder("small").parent))
    encoder = make_encoder(_settings(Path("small")), [Sentence.of(ROWS[0])])
    assert isinstance(encoder, RecurrentEncoder)
    assert encoder.words.size == 4


def test_frozen_words_without_a_vector_are_the_unknown_word(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("casa 1 2\nMadrid 3 4\n", encoding="utf-8")
    settings = build(EncoderConfig, {"words": {"vectors": str(path), "train": False, "lower": False}})
    encoder = make_encoder(settings, [Sentence.of(ROWS[0])])
    assert isinstance(encoder, RecurrentEncoder)
    assert [encoder.words.vocabulary.find(w) > 1 for w in ROWS[0]] == [True, True, False]
