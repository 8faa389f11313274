"""Doubt is -log P of the best tags a token: checked against enumeration for each kind of head."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from nershift.config import build
from nershift.data.corpus import Corpus
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence
from nershift.heads.base import HEADS, make_head
from nershift.heads.crf.head import CRFHead
from nershift.labelling.uncertainty import mean_states, uncertainties
from nershift.methods.base import Setup
from nershift.methods.target_only import TargetOnly
from nershift.model import TaggingModel
from nershift.run import resolve

MakeCorpus = Callable[..., Corpus]
KEY = "target"


@pytest.fixture
def model(make_corpus: MakeCorpus, tiny: dict[str, Any]) -> TaggingModel:
    corpus = make_corpus("news", train=10)
    config = resolve("target_only", tiny)
    task = TargetOnly(Setup(config, build(TargetOnly.Options, {}), corpus, corpus.types))
    return task.prepare_target(None).eval()


def test_crf_doubt_by_enumeration(model: TaggingModel) -> None:
    torch.manual_seed(0)
    space = LabelSpace.of(["LOC"], "BIO")
    head = CRFHead(space, model.encoder.size)
    torch.nn.init.normal_(head.project.weight, std=2.0)
    model.add_head("small", head)
    sentence = Sentence.of(["Ada", "left", "Leeds"])
    batch = model.batch("small", [sentence], [model.encoder.prepare(sentence.tokens)])
    with torch.no_grad():
        states = model.states(batch)
        every = [
            float(-head.loss(states, batch.mask, torch.tensor([tags])))
            for tags in itertools.product(range(len(space)), repeat=3)
        ]
    assert sum(map(math.exp, every)) == pytest.approx(1.0, abs=1e-4)
    assert float(uncertainties(model, "small", [sentence])[0]) == pytest.approx(-max(every) / 3, abs=1e-5)


@pytest.mark.parametrize("kind", HEADS)
def test_every_decoder_has_doubts(model: TaggingModel, make_corpus: MakeCorpus, kind: Any) -> None:
    torch.manual_seed(1)
    model.add_head("other", make_head(kind, LabelSpace.of(["LOC", "PER"]), model.encoder.size))
    model.eval()
    sentences = [*make_corpus("news", train=9).train, Sentence.of([])]
    found = uncertainties(model, "other", sentences, batch_size=4)
    assert found.shape == (10,)
    assert bool((found[:9] > 0).all())
    assert found[9] == 0
    assert torch.allclose(found, uncertainties(model, "other", sentences, batch_size=1), atol=1e-5)


def test_a_sure_decoder_has_no_doubt(model: TaggingModel, make_corpus: MakeCorpus) -> None:
    head = model.head(KEY)
    with torch.no_grad():
        head.project.weight.zero_()
        head.project.bias.zero_()[0] = 40.0  # O, whatever comes
    assert float(uncertainties(model, KEY, make_corpus("news", train=5).train).max()) < 1e-4


def test_states_are_means_over_tokens(model: TaggingModel) -> None:
    rows = [Sentence.of(["Ada", "flew"]), Sentence.of([]), Sentence.of(["Nobody", "in", "Graz", "."])]
    found = mean_states(model, KEY, rows)
    for i in (0, 2):
        batch = model.batch(KEY, [rows[i]], [model.encoder.prepare(rows[i].tokens)])
        with torch.no_grad():
            assert torch.allclose(found[i], model.states(batch)[0].mean(0), atol=1e-6)
    assert not found[1].any()
