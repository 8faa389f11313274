"""What kind of errors a system makes, on which types, and whether it only knows mentions from training.

Each gold span and each predicted span gets one verdict:

===========  ================================================================================================
``correct``  gold and prediction agree in start, end and type
``type``     same start and end, another type
``border``   same type, overlapping, but start or end differ
``both``     overlapping, and both type and border differ
``missed``   a gold span no prediction touches (or whose overlapping predictions all belong to others)
``spurious`` a predicted span that no gold span is paired with
===========  ================================================================================================

Spans are paired one to one within a sentence, best kind first (the order above), then larger overlap, then left
to right. So for each type: support = correct + type + border + both + missed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from nershift.data.spans import Sentence, Span
from nershift.evaluation.metrics import Counts, Predicted, paired

Kind = Literal["correct", "type", "border", "both", "missed", "spurious"]
KINDS: tuple[Kind, ...] = ("correct", "type", "border", "both", "missed", "spurious")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One gold span, one predicted span, or a pair of them, and what became of it."""

    kind: Kind
    gold: Span | None
    pred: Span | None

    @property
    def label(self) -> str:
        """The type it is counted under: the gold one, or the predicted one where there is no gold."""
        span = self.gold or self.pred
        assert span is not None
        return span.label


@dataclass(frozen=True)
class Example:
    """A sentence shown with its right and wrong spans."""

    tokens: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    place: str = ""

    @property
    def errors(self) -> int:
        return sum(o.kind != "correct" for o in self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """``tokens place outcomes``; an outcome is {kind, gold: [start, end, label], pred: [… score]}."""
        rows = [
            {
                "kind": o.kind,
                "gold": [o.gold.start, o.gold.end, o.gold.label] if o.gold else None,
                "pred": [o.pred.start, o.pred.end, o.pred.label, o.pred.score] if o.pred else None,
            }
            for o in self.outcomes
        ]
        return {"tokens": list(self.tokens), "place": self.place, "outcomes": rows}

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Example:
        outcomes = tuple(
            Outcome(o["kind"], Span(*o["gold"]) if o["gold"] else None, Span(*o["pred"]) if o["pred"] else None)
            for o in row["outcomes"]
        )
        return cls(tuple(row["tokens"]), outcomes, row.get("place", ""))


@dataclass(frozen=True)
class Analysis:
    """Error kinds by type, confusions, and scores on mentions seen and unseen in training.

    ``confusions`` counts (gold type, predicted type) over pairs that overlap but differ in type.
    ``seen`` and ``unseen`` are empty when no training sentences were given; a prediction counts as seen when
    its own surface occurs in training, so precision is split by the same rule as recall.
    """

    kinds: dict[str, Counter[str]]
    confusions: Counter[tuple[str, str]]
    seen: Counts | None = None
    unseen: Counts | None = None
    examples: tuple[Example, ...] = field(default=())

    @property
    def totals(self) -> Counter[str]:
        return sum(self.kinds.values(), Counter())

    def worst(self, n: int = 10) -> list[tuple[str, str, int]]:
        """The most frequent type confusions: (gold, predicted, count), ties in alphabetical order."""
        ranked = sorted(self.confusions.items(), key=lambda item: (-item[1], item[0]))
        return [(gold, pred, count) for (gold, pred), count in ranked[:n]]

    def to_dict(self) -> dict[str, Any]:
        """``kinds`` {type: {kind: n}}, ``confusions`` [[gold, pred, n]], ``seen unseen examples``."""
        return {
            "kinds": {label: {k: counts[k] for k in KINDS} for label, counts in sorted(self.kinds.items())},
            "confusions": [list(row) for row in self.worst(len(self.confusions))],
            "seen": self.seen.to_dict() if self.seen else None,
            "unseen": self.unseen.to_dict() if self.unseen else None,
            "examples": [example.to_dict() for example in self.examples],
        }

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Analysis:
        return cls(
            kinds={label: Counter({k: n for k, n in c.items() if n}) for label, c in row["kinds"].items()},
            confusions=Counter({(gold, pred): n for gold, pred, n in row["confusions"]}),
            seen=Counts.from_dict(row["seen"]) if row["seen"] else None,
            unseen=Counts.from_dict(row["unseen"]) if row["unseen"] else None,
            examples=tuple(Example.from_dict(e) for e in row["examples"]),
        )


def analyse(gold: Sequence[Sentence], pred: Predicted, train: Iterable[Sentence] = (), examples: int = 12) -> Analysis:
    """Classify every span.

    Args:
        gold: The right sentences.
        pred: Predictions on the same tokens.
        train: What the system was trained on; a mention is *seen* when its words occur there as an entity of
            any type, in the same casing.
        examples: How many sentences to keep: those with most errors of kinds not shown yet come first.
    """
    known = {s.tokens[span.start : span.end] for s in train for span in s.spans}
    kinds: defaultdict[str, Counter[str]] = defaultdict(Counter)
    confusions: Counter[tuple[str, str]] = Counter()
    halves = {True: Counter[str](), False: Counter[str]()}
    shown: list[Example] = []
    for right, guess in paired(gold, pred):
        outcomes = match(right.spans, guess.spans)
        for outcome in outcomes:
            kinds[outcome.label][outcome.kind] += 1
            if outcome.gold and outcome.pred and outcome.gold.label != outcome.pred.label:
                confusions[outcome.gold.label, outcome.pred.label] += 1
            for role, span in (("support", outcome.gold), ("predicted", outcome.pred)):
                if span:
                    halves[right.tokens[span.start : span.end] in known][role] += 1
            if outcome.kind == "correct" and outcome.gold:
                halves[right.tokens[outcome.gold.start : outcome.gold.end] in known]["correct"] += 1
        if outcomes:
            shown.append(Example(right.tokens, tuple(outcomes), right.place))
    return Analysis(
        kinds=dict(kinds),
        confusions=confusions,
        seen=Counts(**halves[True]) if known else None,
        unseen=Counts(**halves[False]) if known else None,
        examples=tuple(_varied(shown, examples)),
    )


def match(gold: Sequence[Span], pred: Sequence[Span]) -> list[Outcome]:
    """Pair the spans of one sentence and name each outcome, in reading order."""
    candidates = []
    for i, right in enumerate(gold):
        for j, guess in enumerate(pred):
            overlap = min(right.end, guess.end) - max(right.start, guess.start)
            if overlap > 0:
                kind = _kind(right, guess)
                candidates.append((KINDS.index(kind), -overlap, i, j))
    free_gold, free_pred = set(range(len(gold))), set(range(len(pred)))
    outcomes = []
    for rank, _, i, j in sorted(candidates):
        if i in free_gold and j in free_pred:
            free_gold.remove(i)
            free_pred.remove(j)
            outcomes.append(Outcome(KINDS[rank], gold[i], pred[j]))
    outcomes += [Outcome("missed", gold[i], None) for i in free_gold]
    outcomes += [Outcome("spurious", None, pred[j]) for j in free_pred]
    return sorted(outcomes, key=_position)


def _position(outcome: Outcome) -> tuple[int, bool]:
    span = outcome.gold or outcome.pred
    return (span.start if span else 0), outcome.gold is None


def _kind(right: Span, guess: Span) -> Kind:
    if (right.start, right.end) == (guess.start, guess.end):
        return "correct" if right.label == guess.label else "type"
    return "border" if right.label == guess.label else "both"


def _varied(sentences: list[Example], n: int) -> list[Example]:
    """Pick up to ``n`` sentences that together show many kinds of errors on many types."""
    left = sorted(sentences, key=lambda e: (-e.errors, len(e.tokens)))[: 50 * n]
    chosen: list[Example] = []
    shown: Counter[tuple[str, str]] = Counter()
    while left and len(chosen) < n:
        best = max(
            left, key=lambda e: sum(1 / (1 + 4 * shown[o.kind, o.label]) for o in e.outcomes) / (5 + len(e.tokens))
        )
        left.remove(best)
        chosen.append(best)
        shown.update((o.kind, o.label) for o in best.outcomes)
    return chosen
