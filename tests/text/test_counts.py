from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from nershift.data.spans import Sentence
from nershift.text.counts import BOUNDARY, UNKNOWN, OutputWords, WordCounts


def test_counting_in_bounded_memory_keeps_what_is_frequent() -> None:
    rng = random.Random(0)
    counts, exact = WordCounts(limit=500), Counter[str]()
    for i in range(4000):
        tokens = [
            f"word{chr(97 + int(rng.paretovariate(1.0)) % 20)}",
            "once" + "abcdefghij"[i % 10] * (i // 10),
        ]
        exact.update(tokens)
        counts.add(Sentence.of(tokens))
        assert len(counts.words) <= 500
    top = [word for word, _ in exact.most_common(8)]
    assert [word for word, _ in counts.words.most_common(8)] == top
    assert all(counts.words[word] == exact[word] for word in top)
    assert (counts.sentences, counts.tokens) == (4000, 8000)


def test_frequencies_are_those_of_the_texts_each_with_the_same_weight() -> None:
    small = [Sentence.of(["a", "b"])]
    large = [Sentence.of(["a", "c", "c", "1998", "2004"])] * 100
    words = OutputWords.of({"small": small, "large": large})
    share = dict(zip(words.words, words.frequencies[2:], strict=True))
    assert set(words.words) == {"a", "b", "c", "0000"}
    assert words.words[0] == "a"
    assert share["a"] == pytest.approx((1 / 3 + 1 / 6) / 2, rel=1e-4)
    assert share["0000"] == pytest.approx((0 + 2 / 6) / 2, rel=1e-4)
    assert words.frequencies[BOUNDARY] == pytest.approx((1 / 3 + 1 / 6) / 2, rel=1e-4)
    assert 0 < words.frequencies[UNKNOWN] < 1e-5
    assert words.frequencies.sum() == pytest.approx(1)


def test_words_beyond_the_cap_are_one_unknown_word() -> None:
    text = [Sentence.of(["a", "a", "a", "b", "b", "c", "d"])]
    words = OutputWords.of({"t": text}, size=2)
    assert words.words == ["a", "b"]
    assert len(words) == 4
    assert words.frequencies[UNKNOWN] == pytest.approx(2 / 8)
    np.testing.assert_array_equal(words.ids(["b", "c", "A", "a"]), [3, UNKNOWN, UNKNOWN, 2])
    rarer = OutputWords.of({"t": text}, min_count=2)
    assert rarer.words == ["a", "b"]
    assert rarer.frequencies[UNKNOWN] == pytest.approx(2 / 8)
