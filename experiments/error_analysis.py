"""What is kept of a run's predictions: numbers, spans, and where in the test split to look; never its text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.store import pack, unpack
from nershift.data.spans import Sentence, Span
from nershift.evaluation.error_analysis import Analysis, Example, analyse

EXAMPLES = 6
CONFUSIONS = 12


def summarise_errors(
    gold: Sequence[Sentence], predicted: Sequence[Sentence], train: Iterable[Sentence]
) -> dict[str, Any]:
    """``kinds``, ``confusions``, ``seen`` and ``unseen`` as in :class:`Analysis`; ``examples`` without their words.

    Corpora have licences of their own, so an example is the number of its sentence, a hash of its words, and spans.
    """
    whole = analyse(gold, predicted, train, EXAMPLES)
    numbers = {s.tokens: i for i, s in reversed(list(enumerate(gold)))}
    rows = whole.to_dict()
    for row in rows["examples"]:
        tokens = tuple(row.pop("tokens"))
        del row["place"]
        row |= {"sentence": numbers[tokens], "words": _hash(tokens)}
    return rows | {"confusions": rows["confusions"][:CONFUSIONS]}


def analysis(kept: Mapping[str, Any], test: Sequence[Sentence] | None) -> Analysis:
    """The analysis again; examples get their words back from ``test`` if it is unchanged there."""
    shown = []
    for row in kept["examples"]:
        if test is not None and row["sentence"] < len(test):
            tokens = test[row["sentence"]].tokens
            if _hash(tokens) == row["words"]:
                shown.append(Example.from_dict(row | {"tokens": tokens}))
    base = Analysis.from_dict({**kept, "examples": []})
    return Analysis(base.kinds, base.confusions, base.seen, base.unseen, tuple(shown))


def _hash(tokens: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(tokens).encode("utf-8", "backslashreplace")).hexdigest()[:8]


def pack_spans(sentences: Sequence[Sentence]) -> str:
    """Predicted spans without the sentences, which the corpus has."""
    rows = [[[s.start, s.end, s.label, round(s.score or 0.0, 4)] for s in sentence.spans] for sentence in sentences]
    return pack(json.dumps(rows).encode())


def unpack_spans(packed: str, sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences with the spans that :func:`pack_spans` was given."""
    rows = json.loads(unpack(packed))
    return [s.with_spans(Span(*span) for span in row) for s, row in zip(sentences, rows, strict=True)]
