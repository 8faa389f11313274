from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nershift.text.word_cache import Vocabulary, WordCache


def test_look_up_goes_from_the_word_as_written_to_lower_case_to_digits() -> None:
    v = Vocabulary(["Rome", "rome", "a00", "A00", "B0", "c0"])
    number = {word: v.index[word] for word in v.words}
    assert v.find("Rome") == number["Rome"]
    assert v.find("ROME") == number["rome"]
    assert v.find("a17") == number["a00"]
    assert v.find("A17") == number["A00"]
    assert v.find("C7") == number["c0"]
    assert v.find("b7") == 1  # only the cased form is known
    assert v.find("Oslo") == 1


def test_extending_keeps_numbers() -> None:
    v = Vocabulary(["a", "b", "a"])
    assert len(v) == 4
    v.extend(["b", "c"])
    assert [v.index[w] for w in "abc"] == [2, 3, 4]


@given(st.lists(st.text(min_size=0, max_size=9), min_size=1, max_size=40), st.integers(1, 7))
def test_forms_carry_the_rows_and_letters_of_their_words(tokens: list[str], max_length: int) -> None:
    letters = Vocabulary("abcdefg")
    words = Vocabulary(["a", "0"])
    word_cache = WordCache(words, letters, max_length)
    numbers = word_cache.numbers(tokens)
    rows, chars = word_cache.look_up(np.array(numbers))
    assert numbers == word_cache.numbers(tokens)
    for token, row, spelled in zip(tokens, rows.tolist(), chars.tolist(), strict=True):
        shown = [c for c in spelled if c]
        if token == "":  # stands for padding
            assert row == 0
            continue
        assert row == words.find(token)
        ids = [letters.index.get(c, 1) for c in token]
        if len(token) <= max_length:
            assert shown == ids
        else:  # as many letters as allowed, from both ends
            tail = max_length // 2
            assert shown == ids[: max_length - tail] + (ids[-tail:] if tail else [])
        assert spelled[: len(shown)] == shown


def test_the_table_grows_and_clears() -> None:
    word_cache = WordCache(Vocabulary(), Vocabulary("0123456789"), 6)
    tokens = [str(i) for i in range(5000)]
    numbers = word_cache.numbers(tokens)
    assert len(set(numbers)) == 5000
    _, chars = word_cache.look_up(np.array([numbers[4321]]))
    assert chars.tolist() == [[word_cache.characters.index[c] for c in "4321"]]
    word_cache.clear()
    assert len(word_cache) == 1
    assert word_cache.numbers(["x"]) == [1]


@pytest.mark.parametrize("width", [1, 3])
def test_look_up_is_as_wide_as_its_longest_word(width: int) -> None:
    word_cache = WordCache(Vocabulary(), Vocabulary("ab"), 10)
    word_cache.numbers(["abababab"])
    assert word_cache.look_up(np.array(word_cache.numbers(["a" * width])))[1].shape == (1, width)


def test_its_size_is_that_of_what_it_holds() -> None:
    """By its bytes, whether forms are many or long."""
    import tracemalloc

    for words in ([f"w{i:x}" for i in range(30_000)], ["x" * 10_000 + str(i) for i in range(300)], []):
        tracemalloc.start()
        made = WordCache(Vocabulary(), Vocabulary("abc"), 30)
        made.numbers([word + "!" for word in words])  # made here, so that they count
        taken = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert 0.7 * taken < made.bytes < 1.5 * taken
