"""Fit a tagger's temperature to labelled sentences, and say how far its confidences can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nershift.data.spans import Sentence, Span
from nershift.evaluation.calibration import (
    Floats,
    Reliability,
    Threshold,
    confidences_and_truth,
    fit_temperature,
    reliability,
    thresholds,
)
from nershift.model import TaggingModel

MOST = 500  # sentences that a temperature is fitted on: one number needs no more


@dataclass(frozen=True)
class Calibration:
    """A temperature with what it did to the confidences on the sentences it was fitted on."""

    temperature: float
    before: Reliability
    after: Reliability
    thresholds: tuple[Threshold, ...]

    def to_dict(self) -> dict[str, Any]:
        """``temperature before after thresholds``; see the parts for theirs."""
        return {
            "temperature": round(self.temperature, 4),
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "thresholds": [t.to_dict() for t in self.thresholds],
        }


@torch.no_grad()
def calibrate(
    model: TaggingModel, key: str, sentences: Sequence[Sentence], batch_size: int = 128
) -> Calibration | None:
    """Set the temperature of a head to what fits labelled sentences best; None where it finds no entity in them.

    Every sentence is encoded once; only the confidences are computed anew for each temperature tried.
    """
    head = model.head(key)
    head.temperature = 1.0
    step = -(-len(sentences) // MOST) or 1
    chosen = sentences[::step]
    parts = list(_read(model, key, chosen, batch_size))
    known = [{(s.start, s.end, s.label) for s in sentence.spans} for sentence in chosen]
    truth = np.array(
        [
            (s.start, s.end, s.label) in known[i]
            for part in parts
            for i, mine in zip(part.rows, part.spans, strict=True)
            for s in mine
        ],
        dtype=bool,
    )
    if not len(truth):
        return None

    def confidences_at(temperature: float) -> Floats:
        head.temperature = temperature
        rows = (row for part in parts for row in head.confidences(part.states, part.mask, part.spans))
        return np.array([c for row in rows for c in row], dtype=np.float64)

    before = confidences_at(1.0)
    best = round(fit_temperature(confidences_at, truth), 4)
    after = confidences_at(best)  # leaves the head at the best temperature
    return Calibration(best, reliability(before, truth), reliability(after, truth), thresholds(after, truth))


@torch.no_grad()
def tag_twice(
    model: TaggingModel, key: str, sentences: Sequence[Sentence], batch_size: int = 128
) -> tuple[list[Sentence], list[Sentence]]:
    """The sentences with predicted spans, scored at the decoder's temperature, and the same without temperature."""
    head = model.head(key)
    warm = head.temperature
    out = [[s.with_spans(()) for s in sentences] for _ in range(2)]
    for part in _read(model, key, sentences, batch_size):
        for made, temperature in zip(out, (warm, 1.0), strict=True):
            head.temperature = temperature
            scores = head.confidences(part.states, part.mask, part.spans)
            for i, spans, given in zip(part.rows, part.spans, scores, strict=True):
                made[i] = sentences[i].with_spans(
                    Span(s.start, s.end, s.label, c) for s, c in zip(spans, given, strict=True)
                )
        head.temperature = warm
    return out[0], out[1]


def before_and_after(
    gold: Sequence[Sentence], raw: Sequence[Sentence] | None, pred: Sequence[Sentence]
) -> dict[str, Any]:
    """Reliability of predictions without temperature (where there are any such) and with it, as JSON values."""
    given = {"before": raw, "after": pred}
    return {
        name: reliability(*confidences_and_truth(gold, rows)).to_dict()
        for name, rows in given.items()
        if rows is not None
    }


@dataclass(frozen=True)
class _Part:
    """A batch after the encoder: which sentences, their states ``[B, L, H]`` and what is found in them."""

    rows: Sequence[int]
    states: Tensor
    mask: Tensor
    spans: list[list[Span]]


def _read(model: TaggingModel, key: str, sentences: Sequence[Sentence], batch_size: int) -> Iterator[_Part]:
    head = model.head(key)
    model.eval()
    for rows, batch in model.batches(key, sentences, batch_size):
        states = model.states(batch)
        yield _Part(rows, states, batch.mask, head.predict(states, batch.mask))
