"""From texts or tokens to answers: split into sentences, tagged in one batch, returned with offsets."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nershift.data.spans import Sentence, Span
from nershift.tagger.entities import Entity, split_texts
from nershift.tagger.long_sentences import Parts
from nershift.tagger.tagger import Tagger
from nershift.text.word_cache import CACHE_BYTES

_BATCH = 64  # sentences
_SURE = 1.0 - 1e-12  # the greatest uncertainty that has a logarithm
_ROWS = 1_000  # of a list, written at once
_WRITER = json.JSONEncoder(ensure_ascii=False)


@dataclass(frozen=True)
class Reading:
    """One text or one tokenised sentence as the tagger reads it; the text of tokens is they, joined by spaces."""

    tokens: list[str]
    sentences: list[Sentence]
    text: str
    offsets: Sequence[tuple[int, int]]  # of the tokens, in characters of the text

    @classmethod
    def of_text(cls, text: str) -> Reading:
        parts, owners = split_texts([text])
        starts = (start for _, start in owners)
        offsets = [(at + a, at + b) for s, at in zip(parts, starts, strict=True) for a, b in s.offsets or ()]
        return cls([token for s in parts for token in s.tokens], parts, text, offsets)

    @classmethod
    def of_tokens(cls, tokens: list[str]) -> Reading:
        sentence = Sentence(tuple(tokens))
        return cls(tokens, [sentence], *sentence.to_text())


@dataclass(frozen=True)
class Tagged:
    """Entities of one sentence, and the tagger's uncertainty about the whole sentence, from 0 to 1."""

    spans: Sequence[Span]
    uncertainty: float


@torch.inference_mode()
def tag(tagger: Tagger | None, sentences: Sequence[Sentence]) -> list[Tagged]:
    """Tag with confidences. Uncertainty is ``1 - p^(1/n)``, where p is the probability of the tags of all n tokens.

    Without a tagger (a model that was only pretrained) there are no entities and the uncertainty is 1.
    """
    if tagger is None:
        return [Tagged((), 1.0)] * len(sentences)
    model, key = tagger.model, tagger.key
    whole = Parts(sentences)
    results = [Tagged((), 0.0)] * len(whole.sentences)
    for part, batch in model.batches(key, whole.sentences, _BATCH):
        states = model.states(batch)
        spans = model.spans(batch, confidence=True, states=states)
        losses = model.head(key).surprise(states, batch.mask, spans).tolist()
        for i, row, loss in zip(part, spans, losses, strict=True):
            results[i] = Tagged(row, 1.0 - math.exp(-max(loss, 0.0) / len(whole.sentences[i])))
        model.encoder.forget_beyond(CACHE_BYTES)
    return join(whole, results)


def join(whole: Parts, tagged: Sequence[Tagged]) -> list[Tagged]:
    """The results of sentences from those of their parts; the uncertainty is the mean over the tokens of all parts."""
    spans = whole.join([part.spans for part in tagged])
    sizes = whole.group(map(len, whole.sentences))
    return [
        parts[0] if len(parts) == 1 else Tagged(row, _mean([part.uncertainty for part in parts], lengths))
        for parts, row, lengths in zip(whole.group(tagged), spans, sizes, strict=True)
    ]


def _mean(uncertainties: Sequence[float], lengths: Sequence[int]) -> float:
    logs = sum(n * math.log1p(-min(u, _SURE)) for u, n in zip(uncertainties, lengths, strict=True))
    return -math.expm1(logs / sum(lengths))


def answer(reading: Reading, tagged: Sequence[Tagged], min_confidence: float) -> dict[str, Any]:
    """The JSON of one text: tokens, sentences as token ranges, entities, uncertainty per sentence."""
    entities: list[dict[str, Any]] = []
    ranges: list[tuple[int, int]] = []
    at = 0
    for sentence, result in zip(reading.sentences, tagged, strict=True):
        ranges.append((at, at + len(sentence)))
        for span in result.spans:
            entity = Entity.of(span, reading.text, reading.offsets, at)
            if entity.score >= min_confidence:
                score = round(entity.score, 4)
                earlier = {"char_start": entity.start, "char_end": entity.end, "confidence": score}  # until 0.3
                entities.append({**entity.to_dict(), "score": score, **earlier})
        at += len(sentence)
    placed = zip(reading.tokens, reading.offsets, strict=True)
    return {
        "tokens": [{"text": word, "start": a, "end": b} for word, (a, b) in placed],
        "sentences": ranges,
        "entities": entities,
        "uncertainty": [round(t.uncertainty, 4) for t in tagged],
    }


def to_json(value: Any) -> str:
    """As ``json.dumps``, but long lists are written part by part: until a call is done no other thread gets a turn."""
    if isinstance(value, dict) and any(map(_is_long, value.values())):
        return "{" + ", ".join(f"{json.dumps(name)}: {to_json(inner)}" for name, inner in value.items()) + "}"
    if _is_long(value):
        parts = (to_json(value[at : at + _ROWS])[1:-1] for at in range(0, len(value), _ROWS))
        return f"[{', '.join(parts)}]"
    return _WRITER.encode(value)


def _is_long(value: Any) -> bool:
    return isinstance(value, list) and len(value) > _ROWS
