"""Spans with probabilities from the scores of tags, by NumPy: what the heads of a tagger do, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nershift.data.labels import LabelSpace, span_tags, split_tag
from nershift.data.spans import Span
from nershift.evaluation.calibration import possible_temperature
from nershift.heads.crf.arrays import viterbi
from nershift.heads.crf.spans import span_probabilities

Array = NDArray[Any]
_BLOCKED = np.float32(-1e9)  # the score of what is ruled out


class ArrayHead:
    """Most probable legal tags, by the description that the export wrote.

    Args:
        description: ``kind types scheme temperature``, for a CRF ``transitions starts ends``, and ``predicted_types``
            if these are not all types.
    """

    def __init__(self, description: Mapping[str, Any]) -> None:
        self.kind = str(description["kind"])
        self.space = LabelSpace(tuple(description["types"]), description["scheme"])
        self.temperature = possible_temperature(description["temperature"])
        self.predicted_types = tuple(description.get("predicted_types", self.space.types))
        shown = [tag == "O" or split_tag(tag)[1] in self.predicted_types for tag in self.space.tags]
        self.hidden = ~np.array(shown)  # [C]: tags that are never predicted
        legal = (self.space.legal_steps, self.space.legal_starts, self.space.legal_ends)
        names, chained = ("transitions", "starts", "ends"), "transitions" in description
        scores = [np.array(description[name] if chained else 0, np.float32) for name in names]
        steps, starts, ends = (
            np.where(np.array(may), score, _BLOCKED) for may, score in zip(legal, scores, strict=True)
        )
        self.chain = [np.where(self.hidden, _BLOCKED, steps), np.where(self.hidden, _BLOCKED, starts), ends]

    def tags(self, emissions: Array, mask: Array) -> Array:
        """The best legal tag of each token, [B, L]; 0 under padding."""
        scores = emissions if self.kind == "crf" else self._log_probabilities(emissions)
        steps, starts, ends = self.chain
        return viterbi(scores, steps, starts, ends, mask)

    def spans(self, emissions: Array, mask: Array) -> list[list[Span]]:
        """Entities of each sentence, each with its probability."""
        rows = zip(self.tags(emissions, mask), mask.sum(1).tolist(), strict=True)
        spans = [self.space.decode(tags[:length].tolist()) for tags, length in rows]
        return [
            [Span(s.start, s.end, s.label, c) for s, c in zip(row, confidences, strict=True)]
            for row, confidences in zip(spans, self._confidences(emissions, mask, spans), strict=True)
        ]

    def _confidences(self, emissions: Array, mask: Array, spans: list[list[Span]]) -> list[list[float]]:
        if self.kind == "crf":
            steps, starts, ends = (scores / self.temperature for scores in self.chain)
            return span_probabilities(emissions / self.temperature, steps, starts, ends, mask, self.space, spans)
        scores = self._log_probabilities(emissions.astype(np.float64) / self.temperature)  # [B, L, C]
        return [
            [float(np.exp(row[np.arange(s.start, s.end), span_tags(self.space, s)].sum())) for s in mine]
            for row, mine in zip(scores, spans, strict=True)
        ]

    def _log_probabilities(self, emissions: Array) -> Array:
        """Among the tags that may be predicted; -inf for the others."""
        return _log_softmax(np.where(self.hidden, -np.inf, emissions).astype(emissions.dtype))


def _log_softmax(scores: Array) -> Array:
    shifted = scores - scores.max(-1, keepdims=True)
    out: Array = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return out
