from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from onnx_cases import random_encoder, random_tagger, recurrent_settings

from nershift.data.corpus import Corpus
from nershift.errors import CheckpointError
from nershift.tagger.onnx.export import export_onnx
from nershift.tagger.tagger import Tagger

spacy = pytest.importorskip("spacy")
MakeCorpus = Callable[..., Corpus]


@pytest.fixture(scope="module")
def tagger(make_corpus: MakeCorpus) -> Tagger:
    return random_tagger(random_encoder(recurrent_settings(), make_corpus("news").train))


@pytest.fixture(scope="module")
def folder(tagger: Tagger, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "tagger"
    tagger.save(out)
    return out


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    import_module("nershift.tagger.spacy_component")


def _pipeline(folder: Path | str, **config: Any) -> Any:
    nlp = spacy.blank("en")
    nlp.add_pipe("nershift", config={"model": str(folder), **config})
    return nlp


def _found(doc: Any) -> list[tuple[int, int, str]]:
    return [(e.start, e.end, e.label_) for e in doc.ents]


def _spans(sentence: Any) -> list[tuple[int, int, str]]:
    return [(s.start, s.end, s.label) for s in sentence.spans]


def test_the_entry_point_names_the_factory() -> None:
    from spacy.language import Language

    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    block = project.split("[project.entry-points.spacy_factories]")[1]
    module, name = re.findall(r'^nershift = "(.+):(.+)"$', block, re.M)[0]
    assert callable(getattr(import_module(module), name))
    assert "doc.ents" in Language.get_factory_meta("nershift").assigns


def test_predictions_on_tokens_are_the_taggers(tagger: Tagger, folder: Path, make_corpus: MakeCorpus) -> None:
    nlp = _pipeline(folder)
    rows = [s.tokens for s in make_corpus("clinic", train=60).train]
    expected = tagger.tag_tokens(rows)
    assert sum(len(s.spans) for s in expected) > 30
    docs = [spacy.tokens.Doc(nlp.vocab, words=list(row)) for row in rows]
    for doc, sentence in zip(nlp.pipe(docs, batch_size=7), expected, strict=True):
        assert _found(doc) == _spans(sentence)
        assert [e._.confidence for e in doc.ents] == pytest.approx([s.score for s in sentence.spans], abs=1e-5)
    one = nlp.get_pipe("nershift")(spacy.tokens.Doc(nlp.vocab, words=list(rows[0])))
    assert _found(one) == _spans(expected[0])
    assert nlp.pipe_labels["nershift"] == list(tagger.types)


def test_sentence_boundaries_are_followed(tagger: Tagger, folder: Path) -> None:
    nlp = _pipeline(folder)
    nlp.add_pipe("sentencizer", first=True)
    doc = nlp("Okafor flew from Leeds. In Graz, Ruiz met Ada. ")
    first, second = doc.sents
    expected = tagger.tag_tokens([[t.text for t in s if not t.is_space] for s in (first, second)])
    moved = [(a + second.start, b + second.start, label) for a, b, label in _spans(expected[1])]
    assert _found(doc) == _spans(expected[0]) + moved
    assert len(doc.ents) > 1


def test_white_space_and_nothing(tagger: Tagger, folder: Path) -> None:
    nlp = _pipeline(folder)
    doc = nlp("In Graz \n\n  Ruiz met Ada in Leeds")
    words = [t for t in doc if not t.is_space]
    (expected,) = tagger.tag_tokens([[t.text for t in words]])
    assert _found(doc) == [(words[a].i, words[b - 1].i + 1, label) for a, b, label in _spans(expected)]
    assert [d.ents for d in nlp.pipe(["", "  \n"])] == [(), ()]


def test_low_confidence_is_left_out_and_old_entities_are_replaced(folder: Path) -> None:
    text = "Okafor flew from Leeds to Porto ."
    found = [e._.score for e in _pipeline(folder)(text).ents]
    bar = sorted(found)[len(found) // 2]
    kept = _pipeline(folder, min_confidence=bar)(text)
    assert [e._.score for e in kept.ents] == [c for c in found if c >= bar]
    nlp = _pipeline(folder, min_confidence=1.0)
    doc = nlp.make_doc(text)
    doc.ents = [spacy.tokens.Span(doc, 0, 1, label="OLD")]
    assert nlp.get_pipe("nershift")(doc).ents == ()


@pytest.mark.parametrize("exported", [False, True])
def test_a_saved_pipeline_is_whole(exported: bool, tagger: Tagger, folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    if exported:
        export_onnx(tagger, source)
    else:
        tagger.save(source)
    nlp = _pipeline(source)
    text = "Okafor flew from Leeds to Porto ."
    before = _found(nlp(text))
    assert before
    nlp.to_disk(tmp_path / "pipeline")
    source.rename(tmp_path / "gone")
    again = spacy.load(tmp_path / "pipeline")
    assert _found(again(text)) == before
    assert again.get_pipe("nershift").labels == tagger.types
    again.to_disk(tmp_path / "pipeline")  # onto itself
    assert _found(spacy.load(tmp_path / "pipeline")(text)) == before


def test_messages(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no tagger was named"):
        _pipeline("")("text")
    with pytest.raises(CheckpointError, match="no model here"):
        _pipeline(tmp_path)("text")
