"""Strict span scores: a prediction counts when start, end and type are all right, as conlleval counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nershift.data.spans import Sentence, Span
from nershift.errors import DataError

Predicted = Sequence[Sentence] | Sequence[Sequence[Span]]


@dataclass(frozen=True, slots=True)
class Counts:
    """What precision, recall and F1 are made of. Every 0/0 is 0."""

    correct: int = 0
    predicted: int = 0
    support: int = 0

    @property
    def precision(self) -> float:
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.support if self.support else 0.0

    @property
    def f1(self) -> float:
        both = self.predicted + self.support
        return 2 * self.correct / both if both else 0.0

    def to_dict(self) -> dict[str, float | int]:
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "support": self.support,
            "predicted": self.predicted,
            "correct": self.correct,
        }

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Counts:
        return cls(int(row["correct"]), int(row["predicted"]), int(row["support"]))


@dataclass(frozen=True)
class Scores:
    """Scores of one system on one set of sentences, as fractions of 1.

    Example:
        >>> gold = [Sentence.of(["Ada", "saw", "Rome"], [(0, 1, "PER"), (2, 3, "LOC")])]
        >>> made = score(gold, [[Span(0, 1, "PER"), Span(2, 3, "ORG")]])
        >>> made.precision, made.recall, made.f1, made.by_type["PER"].f1
        (0.5, 0.5, 0.5, 1.0)
    """

    micro: Counts
    by_type: dict[str, Counts] = field(default_factory=dict)
    sentences: int = 0

    @property
    def precision(self) -> float:
        return self.micro.precision

    @property
    def recall(self) -> float:
        return self.micro.recall

    @property
    def f1(self) -> float:
        return self.micro.f1

    @property
    def macro_f1(self) -> float:
        """Mean F1 over the types seen in gold or prediction, each type with the same weight."""
        return sum(c.f1 for c in self.by_type.values()) / len(self.by_type) if self.by_type else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Micro ``precision recall f1 support predicted correct``, then ``macro_f1 sentences by_type``."""
        return {
            **self.micro.to_dict(),
            "macro_f1": self.macro_f1,
            "sentences": self.sentences,
            "by_type": {label: counts.to_dict() for label, counts in self.by_type.items()},
        }

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Scores:
        """Inverse of :meth:`to_dict`; ratios are computed again from the counts."""
        by_type = {label: Counts.from_dict(c) for label, c in row["by_type"].items()}
        return cls(Counts.from_dict(row), by_type, int(row["sentences"]))


def paired(gold: Sequence[Sentence], pred: Predicted) -> Iterator[tuple[Sentence, Sentence]]:
    """Walk gold and predicted sentences together.

    Bare lists of spans are checked like any sentence: inside the tokens, and overlapping only where gold may.

    Raises:
        DataError: The two sides differ in length, or in the tokens of a sentence (the first one is named).
    """
    if len(gold) != len(pred):
        raise DataError(
            f"{len(gold)} gold sentences but {len(pred)} predicted ones",
            expected="one prediction for each gold sentence, in the same order",
            fix="predict on exactly the sentences of the gold file",
        )
    guesses: Sequence[Sentence | Sequence[Span]] = pred
    for number, (right, guess) in enumerate(zip(gold, guesses, strict=True), start=1):
        if not isinstance(guess, Sentence):
            yield right, Sentence(right.tokens, tuple(sorted(guess)), place=right.place, nested=right.nested)
            continue
        if right.tokens != guess.tokens:
            raise _tokens_differ(number, right, guess)
        yield right, guess


def _tokens_differ(number: int, right: Sentence, guess: Sentence) -> DataError:
    same = 0
    for a, b in zip(right.tokens, guess.tokens, strict=False):
        if a != b:
            break
        same += 1
    theirs, ours = (repr(s.tokens[same]) if same < len(s) else "the end" for s in (guess, right))
    return DataError(
        f"sentence {number}: predicted tokens differ from the gold ones at token {same + 1}: found {theirs}",
        place=guess.place or right.place,
        expected=ours + (f" (gold at {right.place})" if guess.place and right.place else ""),
        fix="score predictions made on the same tokens, in the same order",
    )


def score(gold: Sequence[Sentence], pred: Predicted) -> Scores:
    """Score predicted spans against gold ones, sentence by sentence."""
    correct: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    support: Counter[str] = Counter()
    for right, guess in paired(gold, pred):
        support.update(s.label for s in right.spans)
        predicted.update(s.label for s in guess.spans)
        correct.update(s.label for s in set(right.spans) & set(guess.spans))
    return _scores(correct, predicted, support, len(gold))


def token_scores(gold: Sequence[Sentence], pred: Predicted) -> Scores:
    """Score tagged tokens instead of spans: a token counts when its entity type is right.

    Tokens outside every entity count only as errors of the other side; where an entity begins is ignored. A token
    of several nested entities counts once for each of their types.
    """
    correct: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    support: Counter[str] = Counter()
    for right, guess in paired(gold, pred):
        ours, theirs = ({(i, s.label) for s in side.spans for i in range(s.start, s.end)} for side in (right, guess))
        support.update(label for _, label in ours)
        predicted.update(label for _, label in theirs)
        correct.update(label for _, label in ours & theirs)
    return _scores(correct, predicted, support, len(gold))


def share_changed(before: Sequence[Sentence], after: Sequence[Sentence]) -> float:
    """Share of tokens whose labels (types of entities, and which of them start there) differ."""
    pairs = [pair for a, b in zip(before, after, strict=True) for pair in zip(_labels(a), _labels(b), strict=True)]
    return sum(x != y for x, y in pairs) / len(pairs) if pairs else 0.0


def _labels(sentence: Sentence) -> list[set[tuple[str, bool]]]:
    labels: list[set[tuple[str, bool]]] = [set() for _ in sentence.tokens]
    for span in sentence.spans:
        for i in range(span.start, span.end):
            labels[i].add((span.label, i == span.start))
    return labels


def sentence_counts(gold: Sequence[Sentence], pred: Predicted) -> NDArray[np.int64]:
    """Correct, predicted and gold spans of each sentence ([N, 3]): all that interval and test need."""
    rows = [
        (len(set(right.spans) & set(guess.spans)), len(guess.spans), len(right.spans))
        for right, guess in paired(gold, pred)
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _scores(correct: Counter[str], predicted: Counter[str], support: Counter[str], n: int) -> Scores:
    by_type = {
        label: Counts(correct[label], predicted[label], support[label])
        for label in sorted(set(predicted) | set(support))
    }
    micro = Counts(correct.total(), predicted.total(), support.total())
    return Scores(micro, by_type, n)
