"""Which sentences of a text are most like some given ones: a domain's few labelled sentences find more of it."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from nershift.data.spans import Sentence

_Weights = dict[str, float]


def most_similar(text: Sequence[Sentence], examples: Sequence[Sentence], count: int) -> list[int]:
    """Places of the ``count`` sentences most similar to ``examples`` on average, in the order of the text.

    Similarity is the cosine of tf-idf vectors of lower-cased words. A sentence shorter than the examples usually are is
    measured as if it were as long: a title that shares one rare word is no good example of a domain. The text is read
    twice and not kept.

    Example:
        >>> text = [Sentence.of(words.split()) for words in ("the band plays on", "the vote was lost", "the band lost")]
        >>> most_similar(text, [Sentence.of(["a", "band", "plays"])], 2)
        [0, 2]
    """
    if count >= len(text):
        return list(range(len(text)))
    seen = Counter(word for sentence in text for word in _words(sentence))
    idf = {word: math.log(len(text) / times) for word, times in seen.items()}
    vectors = [_vector(sentence, idf) for sentence in examples]
    lengths = [_length(vector) for vector in vectors]
    usual = sum(lengths) / max(1, len(lengths))
    centre: _Weights = defaultdict(float)
    for vector, length in zip(vectors, lengths, strict=True):
        for word, weight in vector.items():
            centre[word] += weight / (length or 1.0)

    def score(sentence: Sentence) -> float:
        vector = _vector(sentence, idf)
        return sum(weight * centre.get(word, 0.0) for word, weight in vector.items()) / (
            max(_length(vector), usual) or 1.0
        )

    best = heapq.nlargest(count, ((score(sentence), -i) for i, sentence in enumerate(text)))
    return sorted(-place for _, place in best)


def _words(sentence: Sentence) -> set[str]:
    return {token.lower() for token in sentence.tokens}


def _vector(sentence: Sentence, idf: Mapping[str, float]) -> _Weights:
    """A word of the examples that the text never has finds nothing, so it has no weight."""
    return {word: idf[word] for word in _words(sentence) if word in idf}


def _length(vector: _Weights) -> float:
    return math.sqrt(sum(weight * weight for weight in vector.values()))
