from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.heads.crf.head import CRFHead
from nershift.heads.crf.kernels import log_partition, score
from nershift.server.inference import Reading, answer, tag
from nershift.tagger.tagger import Tagger


@pytest.fixture(scope="module")
def tagger(small_model: Path) -> Tagger:
    return Tagger.load(small_model)


def test_spans_and_confidences_are_the_taggers(tagger: Tagger, make_corpus: Callable[..., Corpus]) -> None:
    sentences = [*make_corpus("news", test=100, seed=3).test, Sentence(())]
    for mine, theirs in zip(tag(tagger, sentences), tagger.tag_sentences(sentences), strict=True):
        assert tuple(mine.spans) == theirs.spans
        assert [s.score for s in mine.spans] == pytest.approx([s.score for s in theirs.spans], abs=1e-5)


def test_uncertainty_is_told_by_enumeration(tagger: Tagger) -> None:
    sentence = Sentence.of(["Okafor", "saw", "Leeds"])
    model, head = tagger.model, tagger.model.head("target")
    assert isinstance(head, CRFHead)
    with torch.no_grad():
        batch = model.batch("target", [sentence], [model.encoder.prepare(sentence.tokens)])
        emissions = head.project(model.states(batch))
        paths = torch.tensor(list(itertools.product(range(len(head.space)), repeat=3)))
        many = emissions.expand(len(paths), -1, -1)
        all_scores = score(many, paths, *head.chain(), torch.ones(len(paths), 3).bool())
        best = float((all_scores.max() - all_scores.logsumexp(0)).exp())
        assert float(log_partition(emissions, *head.chain(), batch.mask)) == pytest.approx(
            float(all_scores.logsumexp(0)), abs=1e-3
        )
    assert tag(tagger, [sentence])[0].uncertainty == pytest.approx(1 - best ** (1 / 3), abs=1e-4)


def test_known_text_is_more_certain_than_noise(tagger: Tagger) -> None:
    texts = ("Ada flew from Leeds to Porto .", "Xq zzk Vv Ww ququ")
    known, noise = tag(tagger, [Sentence.of(text.split()) for text in texts])
    assert known.uncertainty < noise.uncertainty


def test_without_a_tagger_nothing_is_certain() -> None:
    assert [(t.spans, t.uncertainty) for t in tag(None, [Sentence.of(["Ada"])])] == [((), 1.0)]


def test_offsets_of_several_sentences(tagger: Tagger) -> None:
    text = "  Okafor flew from Leeds to Porto .\nIn Graz , Ada met Ruiz ."
    reading = Reading.of_text(text)
    told = answer(reading, tag(tagger, reading.sentences), 0.0)
    assert [text[t["start"] : t["end"]] for t in told["tokens"]] == reading.tokens
    assert told["sentences"] == [(0, 7), (7, 14)]
    assert len(told["uncertainty"]) == 2
    found = [(e["text"], e["label"]) for e in told["entities"]]
    assert found == [(e.text, e.label) for e in tagger(text)]
    assert ("Graz", "place") in found
    for entity in told["entities"]:
        assert text[entity["start"] : entity["end"]] == entity["text"]
        words = told["tokens"][entity["token_start"] : entity["token_end"]]
        assert (words[0]["start"], words[-1]["end"]) == (entity["start"], entity["end"])


def test_entities_below_the_threshold_are_left_out(tagger: Tagger) -> None:
    reading = Reading.of_tokens(["Okafor", "flew", "from", "Leeds", "to", "Porto", "."])
    tagged = tag(tagger, reading.sentences)
    scores = sorted(s.score or 0 for s in tagged[0].spans)
    told = answer(reading, tagged, math.nextafter(scores[0], 1))
    assert len(told["entities"]) == len(scores) - 1
    assert told["tokens"][1] == {"text": "flew", "start": 7, "end": 11}
