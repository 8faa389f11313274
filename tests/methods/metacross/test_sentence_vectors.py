"""Sentence vectors against transformers by hand; finding an encoder by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nershift.methods.metacross.sentence_vectors import SentenceVectors
from nershift.text.subword_vectors import find_encoder
from tiny_encoders import make_encoder_folder

transformers = pytest.importorskip("transformers")
ROWS = [["Ada", "flew", "."], ["In", "Graz", ",", "Lindqvist", "met", "Moreau"], [], ["Leeds"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder_folder("roberta", tmp_path_factory.mktemp("all") / "mine")


@pytest.mark.parametrize("pooling", ["cls", "mean", "words"])
def test_vectors_are_those_of_the_encoder(folder: Path, pooling: str) -> None:
    vectors = SentenceVectors.load(str(folder), pooling)  # type: ignore[arg-type]
    found = vectors(ROWS, batch_size=2)
    model = transformers.AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for row, vector in zip(ROWS, found, strict=True):
        if not row:
            assert not vector.any()
            continue
        ids = tokenizer(row, is_split_into_words=True, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            states = model(input_ids=ids).last_hidden_state[0]
            table = model.get_input_embeddings()(ids[0, 1:-1])
        expected = {"cls": states[0], "mean": states.mean(0), "words": table.mean(0)}[pooling]
        torch.testing.assert_close(vector, expected, atol=1e-5, rtol=0)


def test_a_copy_on_disk_gives_the_same(folder: Path, tmp_path: Path) -> None:
    vectors = SentenceVectors.load(str(folder), "mean")
    vectors.save(tmp_path / "copy")
    again = SentenceVectors.load(str(tmp_path / "copy"), "mean")
    torch.testing.assert_close(again(ROWS), vectors(ROWS))


def test_encoders_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_encoder("mine") == "mine"
    monkeypatch.setenv("NERSHIFT_ENCODERS", str(folder.parent))
    assert find_encoder("mine") == str(folder)
    assert find_encoder(str(folder)) == str(folder)
    assert find_encoder("bert-base-multilingual-cased") == "bert-base-multilingual-cased"
    assert SentenceVectors.load("mine", "words")(ROWS).shape == (4, 16)


@pytest.mark.parametrize("pooling", ["cls", "words"])
def test_a_sentence_longer_than_the_encoder_can_take(folder: Path, pooling: str) -> None:
    vectors = SentenceVectors.load(str(folder), pooling)  # type: ignore[arg-type]
    assert vectors.max_subwords < 64  # the positions this one has
    assert vectors([["Lindqvist"] * 90, ["Ada"]]).isfinite().all()
