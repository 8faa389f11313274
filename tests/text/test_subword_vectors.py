from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models

from benchmarks.word_vectors import write_word_vectors
from nershift.errors import ConfigError
from nershift.text.subword_vectors import (
    SPREAD,
    SubwordTokenizer,
    principal,
    read_subwords,
)
from nershift.text.vectors import read_vectors

MakeFolder = Callable[[str], Path]


def test_a_word_is_the_mean_of_its_pieces(encoder_folder: MakeFolder) -> None:
    vectors = read_subwords(str(encoder_folder("e")), 6)
    assert vectors.tokenizer.pieces("gobiernos") == [2, 3, 5]
    np.testing.assert_allclose(vectors.vector("gobiernos"), vectors.matrix[[2, 3, 5]].mean(0), rtol=1e-6)
    np.testing.assert_allclose(vectors.vector("Madrid"), vectors.matrix[4])
    assert vectors.tokenizer.pieces("zzz") == [vectors.tokenizer.unknown] == [1]
    assert not vectors.vector(" ").any()


def test_words_of_corpora_go_to_a_plain_vector_file(encoder_folder: MakeFolder, tmp_path: Path) -> None:
    vectors = read_subwords(str(encoder_folder("e")), 6)
    out = tmp_path / "words.txt.gz"
    words = ["gobiernos", "Madrid", "zzz", "two words", " ", "Madrid"]
    assert write_word_vectors(vectors, words, out) == 3
    found = read_vectors(out)
    assert found.words == ["Madrid", "gobiernos", "zzz"]
    for word in found.words:
        np.testing.assert_allclose(found.matrix[found.index[word]], vectors.vector(word), atol=5.1e-4)


def test_fewer_axes_keep_the_distances_that_vary_most() -> None:
    rng = np.random.default_rng(0)
    table = (rng.normal(size=(200, 5)) * [9, 5, 1e-3, 1e-3, 1e-3] + 4).astype(np.float32)
    cut = principal(table, 2)
    assert cut.shape == (200, 2)
    np.testing.assert_allclose(cut.mean(0), 0, atol=1e-5)
    assert float(cut.std()) == pytest.approx(SPREAD, rel=1e-4)
    far = [np.linalg.norm(x[:100] - x[100:], axis=1) for x in (table, cut)]
    np.testing.assert_allclose(far[1] / far[0], (far[1] / far[0])[0], rtol=1e-3)
    assert principal(table, 99).shape == (200, 5)


def test_missing_and_broken_files_are_told_by_name(encoder_folder: MakeFolder, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.safetensors") as caught:
        read_subwords(str(tmp_path / "none"), 3)
    assert caught.value.place == "encoder.words.subwords"
    folder = encoder_folder("a")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match="not a tokenizer"):
        read_subwords(str(folder), 3)
    folder = encoder_folder("b")
    save_file({"x": torch.zeros(2)}, folder / "model.safetensors")
    with pytest.raises(ConfigError, match="no table of sub-words"):
        read_subwords(str(folder), 3)
    folder = encoder_folder("c")
    (folder / "model.safetensors").write_bytes(b"1234")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_subwords(str(folder), 3)


def test_the_unknown_piece_of_a_unigram_tokenizer_is_a_number() -> None:
    made = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], unk_id=0))
    assert SubwordTokenizer(made.to_str()).unknown == 0
