"""What several answers to the same sentences agree on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from nershift.data.spans import Sentence, Span


def vote(answers: Sequence[Sequence[Sentence]]) -> list[Sentence]:
    """The entities that more than half of the answers have, with the same words and type.

    Any two of them stand together in at least one answer, so they overlap only where the answers' entities do. The
    score is the mean of the answers' scores; an answer without the entity counts as 0, one without scores as 1.

    Example:
        >>> ada = Sentence.of(["Ada", "left"], [(0, 1, "PER")])
        >>> vote([[ada], [ada], [ada.with_spans(())]])[0].spans
        (Span(start=0, end=1, label='PER', score=0.6666666666666666),)
    """
    voted = []
    for same in zip(*answers, strict=True):
        scores = defaultdict[tuple[int, int, str], list[float]](list)
        for sentence in same:
            for span in sentence.spans:
                scores[span.start, span.end, span.label].append(1.0 if span.score is None else span.score)
        kept = sorted(span for span, votes in scores.items() if 2 * len(votes) > len(same))
        voted.append(same[0].with_spans(Span(*span, sum(scores[span]) / len(same)) for span in kept))
    return voted
