from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nershift.config import EncoderConfig, WordsConfig, build
from nershift.data.spans import Sentence
from nershift.encoders.base import make_encoder
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.encoders.words import WordTable
from nershift.errors import ConfigError


def _table(train: bool = True, drop: float = 0.0) -> WordTable:
    torch.manual_seed(0)
    table = WordTable(WordsConfig(train=train, word_dropout=drop), ["rome", "left"], ["oslo", "00"], size=3)
    table.fill(["oslo", "rome", "00"], torch.tensor([[4.0, 5, 6], [1, 2, 3], [7, 8, 9]]))
    return table


def _vector(table: WordTable, word: str) -> list[float]:
    return table(torch.tensor([table.vocabulary.find(word)]))[0].tolist()


def test_trained_rows_and_reserve_rows() -> None:
    table = _table()
    assert _vector(table, "Rome") == [1, 2, 3]
    assert _vector(table, "OSLO") == [4, 5, 6]
    assert _vector(table, "17") == [7, 8, 9]
    assert _vector(table, "never") == table.weight[1].tolist()
    assert not table.weight[0].any()


def test_only_trained_rows_learn() -> None:
    table = _table()
    rows = torch.tensor([table.vocabulary.find(w) for w in ("rome", "oslo", "left", "oslo")])
    table(rows).sum().backward()
    assert table.weight.grad is not None
    learnt = table.weight.grad.abs().sum(1) > 0
    assert learnt.tolist() == [False, False, True, True]
    assert not _table(train=False).weight.requires_grad


def test_dropped_words_become_the_unknown_word_in_training_only() -> None:
    table = _table(drop=1.0)
    rows = torch.tensor([2, 4])
    assert torch.equal(table.train()(rows), table.weight[[1, 1]])
    assert table.eval()(rows).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_learning_words_keeps_vectors_and_moves_rows() -> None:
    table = _table()
    left = _vector(table, "left")
    table.learn(["rome", "oslo", "lima", "lima", "ROME2"])
    assert table.trained == 2 + 2 + 3  # padding, unknown; rome, left; oslo, lima, ROME2
    assert table.vocabulary.find("oslo") < table.trained <= table.vocabulary.find("00")
    assert _vector(table, "rome") == [1, 2, 3]
    assert _vector(table, "left") == left
    assert _vector(table, "oslo") == [4, 5, 6]
    assert _vector(table, "00") == [7, 8, 9]
    assert len(table.weight) == table.trained
    assert len(table.reserve) == 1
    assert table.weight.requires_grad
    assert _vector(table, "lima") != table.weight[1].tolist()


def test_a_learnt_word_starts_from_the_row_it_was_shown_by() -> None:
    table = _table()
    table.learn(["Rome", "42"])
    assert _vector(table, "Rome") == [1, 2, 3]
    assert _vector(table, "42") == [7, 8, 9]
    assert table.vocabulary.find("Rome") != table.vocabulary.find("rome")


def test_learning_nothing_new_changes_nothing() -> None:
    table = _table()
    weight = table.weight
    table.learn(["rome", "left"])
    assert table.weight is weight


def test_describe_and_rebuild() -> None:
    table = _table(drop=0.25).eval()
    table.learn(["lima"])
    again = WordTable.rebuild(table.describe())
    again.eval().load_state_dict(table.state_dict())
    assert again.config.word_dropout == 0.25
    for word in ("rome", "left", "oslo", "lima", "33", "never"):
        assert _vector(again, word) == _vector(table, word)


def _encoder(path: Path, **words: object) -> RecurrentEncoder:
    config = build(EncoderConfig, {"words": {"vectors": str(path), **words}})
    encoder = make_encoder(config, [Sentence.of(["Rome", "fell", "in", "1998"])])
    assert isinstance(encoder, RecurrentEncoder)
    return encoder


@pytest.fixture
def vector_file(tmp_path: Path) -> Path:
    path = tmp_path / "v.txt"
    path.write_text("rome 1 2\nRome 3 4\n0000 5 6\noslo 7 8\nOslo 9 9\nlima 1 1\n", encoding="utf-8")
    return path


def test_vectors_of_a_file(vector_file: Path) -> None:
    words = _encoder(vector_file).words
    assert words.size == 2
    assert _vector(words, "rome") == [1, 2]
    assert _vector(words, "Rome") == [1, 2]  # one row for all casings, the trained one
    assert _vector(words, "1998") == [5, 6]
    assert words.vocabulary.find("1998") < words.trained <= words.vocabulary.find("oslo")
    assert _vector(words, "Oslo") == [7, 8]


def test_cased_vectors_of_a_file(vector_file: Path) -> None:
    words = _encoder(vector_file, lower=False).words
    assert _vector(words, "Rome") == [3, 4]
    assert _vector(words, "rome") == [1, 2]
    assert _vector(words, "Oslo") == [9, 9]
    assert _vector(words, "OSLO") == [7, 8]


def test_the_reserve_is_limited(vector_file: Path) -> None:
    words = _encoder(vector_file, extra_words=1).words
    assert len(words.reserve) == 1
    assert words.vocabulary.find("lima") == 1


def test_a_missing_vector_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.txt"):
        _encoder(tmp_path / "nowhere.txt")


def test_numbers_of_one_shape_share_a_row_unless_they_have_a_vector(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("1996 1 2\nmay 3 4\n")
    config = EncoderConfig(words=WordsConfig(vectors=str(path)))
    encoder = make_encoder(config, [Sentence.of(["May", "28", "1996", "and", "31"])])
    assert isinstance(encoder, RecurrentEncoder)
    words = encoder.words.vocabulary
    assert words.find("28") == words.find("31") == words.find("77") > 1
    assert words.find("1996") != words.find("1997") == 1  # no four digits without a vector were seen
    encoder.learn_words(["2001", "1996"])
    words = encoder.words.vocabulary
    assert words.find("2001") == words.find("1997") > 1
    assert words.find("1996") != words.find("1997")
