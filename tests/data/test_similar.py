"""Picking the sentences of a text that are most like some given ones."""

from __future__ import annotations

import math
import random
from collections import Counter

from nershift.data.similar import most_similar
from nershift.data.spans import Sentence


def _text(seed: int, count: int) -> list[Sentence]:
    rng = random.Random(seed)
    words = [f"w{i}" for i in range(40)]
    return [Sentence.of(rng.choices(words, k=rng.randint(1, 12))) for _ in range(count)]


def _plain(text: list[Sentence], examples: list[Sentence], count: int) -> list[int]:
    """The same by the definition: full vectors and their mean cosine."""
    seen = Counter(w for s in text for w in {t.lower() for t in s.tokens})
    words = sorted(seen)
    idf = [math.log(len(text) / seen[w]) for w in words]

    def vector(s: Sentence) -> list[float]:
        have = {t.lower() for t in s.tokens}
        return [weight * (word in have) for word, weight in zip(words, idf, strict=True)]

    def dot(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    given = [vector(s) for s in examples]
    usual = sum(math.sqrt(dot(v, v)) for v in given) / len(given)
    scores = []
    for s in text:
        v = vector(s)
        length = max(math.sqrt(dot(v, v)), usual)
        scores.append(sum(dot(v, g) / (length * math.sqrt(dot(g, g))) for g in given if dot(g, g)))
    best = sorted(range(len(text)), key=lambda i: (-round(scores[i], 9), i))[:count]
    return sorted(best)


def test_as_by_its_definition() -> None:
    text, examples = _text(1, 60), _text(2, 5)
    assert most_similar(text, examples, 12) == _plain(text, examples, 12)


def test_all_of_a_short_text() -> None:
    text = _text(3, 4)
    assert most_similar(text, _text(4, 2), 9) == [0, 1, 2, 3]


def test_a_title_with_one_rare_word_does_not_beat_a_sentence_of_the_domain() -> None:
    domain = ["the", "band", "released", "a", "new", "album", "in", "spring"]
    text = [Sentence.of(["Spring"]), Sentence.of(domain), *_text(5, 30)]
    examples = [Sentence.of(["the", "band", "played", "its", "album", "in", "the", "spring", "of", "that", "year"])]
    assert most_similar(text, examples, 1) == [1]
