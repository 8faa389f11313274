"""Taggers with random weights that find something, and the comparison of two taggers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from nershift.config import EncoderConfig, build
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence
from nershift.encoders.base import Encoder, make_encoder
from nershift.heads.base import make_head
from nershift.model import TaggingModel
from nershift.tagger.onnx.tagger import OnnxTagger
from nershift.tagger.tagger import Tagger

TYPES = ["drug", "person", "place"]


def recurrent_settings(**more: Any) -> dict[str, Any]:
    return {
        "words": {"size": 7},
        "chars": {"size": 5, "filters": 7, "widths": [2, 3, 5], "max_length": 9},
        "recurrent": {"size": 6} | more,
        "dropout": 0.1,
    }


def random_encoder(settings: dict[str, Any], sentences: Sequence[Sentence], seed: int = 0) -> Encoder:
    torch.manual_seed(seed)
    return make_encoder(build(EncoderConfig, settings), sentences)


def random_tagger(encoder: Encoder, kind: Any = "crf", scheme: Any = "BIOES", **meta: Any) -> Tagger:
    """Weights large enough that tags differ from word to word."""
    head = make_head(kind, LabelSpace.of(TYPES, scheme), encoder.size)
    with torch.no_grad():
        head.project.weight.normal_(0, 2)
        head.project.bias.normal_(0, 1)
    head.temperature = 1.7
    return Tagger(TaggingModel(encoder, {"target": head}), meta)


def assert_same(ours: OnnxTagger, tagger: Tagger, sentences: Sequence[Sentence], some: int = 5) -> None:
    """The same spans with the same scores; at least ``some`` of them."""
    theirs, found = tagger.tag_sentences(sentences, 16), ours.tag_sentences(sentences, 16)
    assert found == theirs
    assert sum(len(s.spans) for s in theirs) >= some
    for a, b in zip(found, theirs, strict=True):
        assert [s.score for s in a.spans] == pytest.approx([s.score for s in b.spans], abs=1e-4)
