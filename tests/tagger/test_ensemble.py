"""Taggers that vote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence, Span
from nershift.errors import ConfigError
from nershift.evaluation.vote import vote
from nershift.run import transfer
from nershift.tagger.ensemble import Ensemble

MakeCorpus = Callable[..., Corpus]
TOKENS = ["Ada", "Lovelace", "left", "London", "today"]


def answer(*spans: tuple[int, int, str, float]) -> list[Sentence]:
    return [Sentence.of(TOKENS, [Span(*span) for span in spans])]


def test_more_than_half_must_agree_on_words_and_type() -> None:
    voted = vote(
        [
            answer((0, 2, "PER", 0.9), (3, 4, "LOC", 0.6)),
            answer((0, 2, "PER", 0.6), (3, 4, "ORG", 0.8), (4, 5, "TIME", 0.9)),
            answer((1, 2, "PER", 0.9), (3, 4, "LOC", 0.3)),
        ]
    )
    assert [(s.start, s.end, s.label) for s in voted[0].spans] == [(0, 2, "PER"), (3, 4, "LOC")]
    assert [s.score for s in voted[0].spans] == pytest.approx([0.5, 0.3])


def test_half_is_not_more_than_half() -> None:
    assert vote([answer((0, 2, "PER", 1.0)), answer()])[0].spans == ()


def test_a_vote_of_one_changes_nothing() -> None:
    assert vote([answer((0, 2, "PER", 0.7))]) == answer((0, 2, "PER", 0.7))


def trained(corpus: Corpus, out: Path, seed: int) -> Path:
    settings = {
        "device": "cpu",
        "encoder": {"words": {"size": 8}, "chars": {"use": False}, "recurrent": {"size": 8}},
        "train": {"epochs": 3, "batch_size": 8, "lr": 0.02},
    }
    transfer("target_only", corpus, out=out, config=settings, seed=seed, quiet=True, report=False)
    return out


def test_runs_vote_on_texts_and_sentences(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = make_corpus("news", train=40)
    ensemble = Ensemble.load([trained(corpus, tmp_path / str(seed), seed) for seed in (1, 2, 3)])
    answers = [tagger.tag_sentences(corpus.test) for tagger in ensemble.taggers]
    assert len({tuple(s.spans for s in tagged) for tagged in answers}) > 1  # they differ somewhere
    assert ensemble.tag_sentences(corpus.test) == vote(answers)
    text = "Okafor flew from Leeds to Porto ."
    alone = [{(e.start, e.end, e.label) for e in tagger(text)} for tagger in ensemble.taggers]
    for entity in ensemble(text):
        assert text[entity.start : entity.end] == entity.text
        assert sum((entity.start, entity.end, entity.label) in found for found in alone) > 1


def test_types_must_be_the_same(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = make_corpus("news", train=40)
    other = corpus.mapped({"person": "human", "place": "place"})
    folders = [trained(corpus, tmp_path / "a", 1), trained(other, tmp_path / "b", 1)]
    with pytest.raises(ConfigError, match="the same entity types"):
        Ensemble.load(folders)
    with pytest.raises(ConfigError, match="without taggers"):
        Ensemble([])
