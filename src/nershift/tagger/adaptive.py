"""Tagging by retrieval and adaptation: find labelled sentences like this one, step on them, then read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nershift.data.spans import Sentence
from nershift.methods.metacross.batched_adaptation.adapter import Adapter
from nershift.methods.metacross.support import Neighbour, Support
from nershift.model import TaggingModel


def adapt_sentences(
    model: TaggingModel, key: str, support: Support, sentences: Sequence[Sentence], batched: bool = True
) -> list[Sentence]:
    """The sentences with spans predicted by weights adapted to each (Algorithm 1, lines 14-20)."""
    if not sentences:
        return []
    tasks = support.search(sentences, model)[0].tolist()
    settings = support.settings
    adapter = Adapter(model, key, settings.rule, settings.memory, batched, settings.precision)
    return adapter.predict(sentences, support.sentences, tasks)


def neighbours(model: TaggingModel, support: Support, sentences: Sequence[Sentence]) -> list[list[Neighbour]]:
    """What each sentence would be adapted to, nearest first."""
    if not sentences:
        return []
    rows, similarities = support.search(sentences, model)
    return [
        [Neighbour(support.sentences[i], s) for i, s in zip(found, near, strict=True)]
        for found, near in zip(rows.tolist(), similarities.tolist(), strict=True)
    ]


@dataclass(frozen=True)
class Case:
    """A sentence whose entities adaptation changed, and what it was adapted to."""

    gold: Sentence
    before: Sentence
    after: Sentence
    neighbours: tuple[Neighbour, ...]

    @property
    def outcome(self) -> Literal["put right", "put wrong", "still wrong"]:
        if self.after.spans == self.gold.spans:
            return "put right"
        return "put wrong" if self.before.spans == self.gold.spans else "still wrong"


def cases(model: TaggingModel, key: str, support: Support, gold: Sequence[Sentence]) -> list[Case]:
    """Every sentence that adaptation tags otherwise, in order."""
    before = model.predict(key, gold)
    after = adapt_sentences(model, key, support, gold)
    changed = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a.spans != b.spans]
    near = neighbours(model, support, [gold[i] for i in changed])
    return [Case(gold[i], before[i], after[i], tuple(n)) for i, n in zip(changed, near, strict=True)]


def share_changed(before: Sequence[Sentence], after: Sequence[Sentence]) -> float:
    """Share of tokens whose label (type and place in an entity) differs."""
    changed = total = 0
    for a, b in zip(before, after, strict=True):
        changed += sum(x != y for x, y in zip(_labels(a), _labels(b), strict=True))
        total += len(a)
    return changed / total if total else 0.0


def _labels(sentence: Sentence) -> list[tuple[str, bool]]:
    out = [("", False)] * len(sentence)
    for span in sentence.spans:
        for i in range(span.start, span.end):
            out[i] = (span.label, i == span.start)
    return out
