"""The span head goes through all that taggers do, flat and with overlapping entities; nobody else knows its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nershift
from nershift.cli import app
from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.data.formats import read_corpus, write_corpus
from nershift.data.spans import Sentence
from nershift.errors import SetupError
from nershift.labelling.choose import choose
from nershift.server.inference import tag
from nershift.server.learning import learn

MakeCorpus = Callable[..., Corpus]
SPAN = {"head": {"kind": "span", "options": {"max_width": 4, "hidden": 16}}}
LONGER = {"train": {"epochs": 40}, "pretrain": {"epochs": 10}}


@pytest.fixture(scope="module")
def corpora(make_corpus: MakeCorpus) -> tuple[Corpus, Corpus]:
    return make_corpus("news", train=40), make_corpus("clinic", train=30)


def nested_corpus(corpus: Corpus) -> Corpus:
    """Every person is also, with the word after it, an ``act``: entities that lie inside others."""

    def more(sentence: Sentence) -> Sentence:
        acts = [(s.start, s.end + 1, "act") for s in sentence.spans if s.label == "person" and s.end < len(sentence)]
        return Sentence.of(sentence.tokens, [*sentence.spans, *acts], nested=True)

    return corpus.with_splits(**{name: tuple(map(more, split)) for name, split in corpus.splits.items()})


def test_from_training_to_serving(
    corpora: tuple[Corpus, Corpus], tiny: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = corpora
    config = merge(merge(tiny, SPAN), LONGER)
    run = nershift.transfer("finetune", target, [source], out=tmp_path / "run", config=config, quiet=True)
    assert run.f1 > 0.5
    assert any("kept the source's rows for person, place" in note for note in run.metrics["remarks"])
    assert run.metrics["calibration"]["temperature"] > 0  # calibrated on dev

    tagger = nershift.Tagger.load(tmp_path / "run")  # saved and loaded: the same answers
    gold, predicted = run.predictions()
    assert [s.spans for s in tagger.tag_sentences(gold)] == [s.spans for s in predicted]
    assert all(0 <= span.score <= 1 for s in tagger.tag_sentences(gold) for span in s.spans if span.score is not None)

    write_corpus(tmp_path / "clinic", target, "jsonl")
    data = tmp_path / "clinic" / "test.jsonl"
    app(args=["evaluate", "--model", str(tmp_path / "run"), "--data", str(data), "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["scores"]["f1"] == pytest.approx(run.f1)

    chosen = choose(tagger, [s.with_spans(()) for s in target.train], 3)  # what to label next
    assert len(chosen.chosen) == 3

    vote = nershift.Ensemble.load([tmp_path / "run", tmp_path / "run"])
    assert [s.spans for s in vote.tag_sentences(gold)] == [s.spans for s in predicted]

    answers = tag(tagger, [s.with_spans(()) for s in gold])  # what the server answers with
    assert [list(a.spans) for a in answers] == [list(s.spans) for s in predicted]
    assert all(0 <= a.uncertainty <= 1 for a in answers)
    taught = [Sentence.of(["zolpirex", "helps"], [(0, 1, "brand")]), *target.train[:5]]
    learned = learn(tmp_path / "run", taught, tmp_path / "scratch", 1e6, lambda share, message: None)
    assert "brand" in learned.types
    assert learned.model.head("target").kind == "span"

    folder = nershift.pretrain("finetune", [source], out=tmp_path / "start", config=config, quiet=True)
    adapted = nershift.adapt(folder, target, out=tmp_path / "adapted", config=SPAN, quiet=True, report=False)
    assert adapted.tagger().model.head("target").kind == "span"


def test_entities_inside_others_are_read_trained_scored_and_written(
    corpora: tuple[Corpus, Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    corpus = nested_corpus(corpora[0])
    write_corpus(tmp_path / "nested", corpus, "jsonl")
    read = read_corpus(tmp_path / "nested", nested=True)
    assert read.nested
    assert [s.spans for s in read.train] == [s.spans for s in corpus.train]
    config = merge(merge(tiny, SPAN), LONGER)
    with pytest.raises(SetupError, match="entities overlap in nested, which head 'crf' cannot learn") as refused:
        nershift.transfer("target_only", read, out=tmp_path / "flat", config=tiny, quiet=True)
    assert "head.options.overlapping=true" in refused.value.fix
    config = merge(config, {"head": {"options": {"overlapping": True}}})
    run = nershift.transfer("target_only", read, out=tmp_path / "run", config=config, quiet=True)
    assert run.f1 > 0.5
    gold, predicted = run.predictions()  # written to disk and read back
    assert any(s.nested for s in predicted)
    inside = [(a, b) for s in predicted for a in s.spans for b in s.spans if a is not b and a.start <= b.start < a.end]
    assert inside
    entities = run.tagger().predict(" ".join(gold[0].tokens))
    assert all(e.text for e in entities)
    assert (tmp_path / "run" / "report.html").exists()
