"""Sentences of any length are tagged in parts, with the entities that the whole would have, in every way to tag."""

from __future__ import annotations

import json
import random
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence, Span
from nershift.run import transfer
from nershift.tagger.ensemble import Ensemble
from nershift.tagger.entities import Entity
from nershift.tagger.long_sentences import LONGEST, OVERLAP, Parts, _cut, tag_in_parts
from nershift.tagger.predict_file import predict_file
from nershift.tagger.tagger import Tagger

WORDS = ("Okafor", "flew", "from", "Leeds", "to", "Porto", "and", "Ada", "met", "Ruiz", "in", "Graz", ",", "nobody")


@pytest.fixture(scope="module")
def run(make_corpus: Callable[..., Corpus], tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings: dict[str, Any] = {
        "device": "cpu",
        "encoder": {"words": {"size": 16}, "chars": {"filters": 16}, "recurrent": {"size": 16}, "dropout": 0.1},
        "train": {"epochs": 12, "batch_size": 8, "lr": 0.02},
    }
    out = tmp_path_factory.mktemp("run") / "r"
    transfer("target_only", make_corpus("news", train=80), out=out, config=settings, quiet=True, report=False)
    return out


@pytest.fixture(scope="module")
def tagger(run: Path) -> Tagger:
    return Tagger.load(run)


def words(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [draw.choice(WORDS) for _ in range(count)]


def found(sentence: Sentence) -> list[tuple[int, int, str]]:
    return [(s.start, s.end, s.label) for s in sentence.spans]


# -- cut and joined, whatever tags ---------------------------------------------------------------------------


@pytest.mark.parametrize(("longest", "overlap"), [(20, 8), (7, 2), (50, 0), (5, 4), (LONGEST, OVERLAP)])
@pytest.mark.parametrize("over", [0, 1, 2, 7, 19, 100, 1_000])
def test_every_token_is_decided_once_and_seen_with_its_neighbours(longest: int, overlap: int, over: int) -> None:
    parts = _cut(length := longest + over, longest, overlap)
    assert [parts[0].first, parts[-1].last] == [0, length]
    assert all(a.last == b.first < b.last for a, b in pairwise(parts))
    for part in parts:
        assert part.start <= part.first
        assert part.last <= part.start + longest <= max(length, longest)
        assert part.first - part.start >= overlap // 2 or part.start == 0
        assert part.start + longest - part.last >= overlap // 2 or part.last == length
    assert len(parts) <= 2 + over // (longest - overlap)


def runs(sentences: Sequence[Sentence]) -> list[Sentence]:
    """A tagger that looks at neighbours alone: every run of X is an entity, a run of Y in it another."""
    out = []
    for sentence in sentences:
        spans, start = [], None
        for i, token in enumerate((*sentence.tokens, ".")):
            if token in "XY" and start is None:
                start = i
            if token not in "XY" and start is not None:
                spans.append(Span(start, i, "run"))
                start = None
        out.append(sentence.with_spans(spans))
    return out


def nested_runs(sentences: Any) -> list[Sentence]:
    inside = [[Span(i, i + 1, "one") for i, token in enumerate(s.tokens) if token == "Y"] for s in sentences]
    return [s.with_spans((*s.spans, *more)) for s, more in zip(runs(sentences), inside, strict=True)]


@pytest.mark.parametrize("tag", [runs, nested_runs])
def test_parts_say_what_the_whole_says(tag: Any) -> None:
    """The whole is the oracle; entities are as long as the half overlap, and lie on borders as often as anywhere."""
    draw = random.Random(1)
    for _ in range(200):
        tokens: list[str] = []
        while len(tokens) < 200:
            tokens += draw.choices("ab", k=draw.randint(1, 4)) + draw.choices("XY", k=draw.randint(0, 6))
        rows = [Sentence.of(tokens), Sentence.of(tokens[:9]), Sentence.of([])]
        parts = Parts(rows, longest=20, overlap=14)
        assert max(map(len, parts.sentences)) <= 20
        assert parts.with_spans(tag(parts.sentences)) == tag(rows)


def test_parts_that_disagree_leave_no_overlap() -> None:
    whole = Sentence.of(["w"] * 100)
    draw = random.Random(2)
    for _ in range(300):
        parts = Parts([whole], longest=20, overlap=10)
        rows = []
        for part in parts.sentences:
            cuts = sorted(draw.sample(range(len(part) + 1), 6))
            rows.append([Span(a, b, "x") for a, b in (cuts[:2], cuts[2:4], cuts[4:])])
        (joined,) = parts.join(rows)
        assert all(a.end <= b.start for a, b in pairwise(joined))
        whole.with_spans(joined)


def test_short_sentences_are_handed_on_as_they_are() -> None:
    rows = [Sentence.of(["a"] * LONGEST), Sentence.of([]), Sentence.of(["X"], text="X", offsets=[(0, 1)])]
    given: list[Sentence] = []
    assert tag_in_parts(rows, lambda some: given.extend(some) or runs(some)) == runs(rows)  # type: ignore[func-returns-value]
    assert all(a is b for a, b in zip(given, rows, strict=True))


# -- the ways to tag -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long(make_corpus: Callable[..., Corpus]) -> Sentence:
    """Sentences without their stops in one row."""
    rows = make_corpus("news", train=900, dev=0, test=0, seed=9).train
    return Sentence.of([token for s in rows for token in s.tokens if token != "."][:5_000])


def test_a_tagger_says_of_parts_what_it_says_of_the_whole(tagger: Tagger, long: Sentence) -> None:
    (cut,) = tagger.tag_sentences([long])
    (whole,) = tagger.model.predict(tagger.key, [long], confidence=True)
    assert len(cut.spans) > 1_000
    assert found(cut) == found(whole)
    for a, b in zip(cut.spans, whole.spans, strict=True):
        assert a.score == pytest.approx(b.score, abs=0.01)
    assert [s.spans for s in tagger.predict_uncalibrated([long])[0]] == [cut.spans]
    assert [found(s) for s in Ensemble([tagger, tagger]).tag_sentences([long])] == [found(cut)]


def test_no_batch_has_more_tokens_than_it_may(tagger: Tagger, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    states = type(tagger.model).states
    monkeypatch.setattr(
        type(tagger.model), "states", lambda model, batch: (seen.append(batch.mask.numel()), states(model, batch))[1]
    )
    tagger.tag_sentences([Sentence.of(words(20_000)), *(Sentence.of(words(300, i)) for i in range(100))])
    assert max(seen) <= 16_384
    assert sum(seen) < 2 * 50_000


def shown(entities: Any) -> list[tuple[int, int, str]]:
    return [(e["start"], e["end"], e["label"]) for e in entities]


@pytest.fixture(scope="module")
def expected(tagger: Tagger, long: Sentence) -> list[tuple[int, int, str]]:
    """Entities in characters of the long sentence, from the whole."""
    text, offsets = long.to_text()
    whole = tagger.model.predict(tagger.key, [long], confidence=True)[0]
    return shown(Entity.of(span, text, offsets).to_dict() for span in whole.spans)


def test_predict_and_ray(tagger: Tagger, run: Path, long: Sentence, expected: Any, tmp_path: Path) -> None:
    text = " ".join(long.tokens)
    (tmp_path / "a.txt").write_text(text)
    (row,) = predict_file(tagger, str(tmp_path / "a.txt"))
    assert shown(row["entities"]) == expected
    pa = pytest.importorskip("pyarrow")
    from nershift.tagger.ray_predict import _Tag

    table = pa.table({"path": ["f"], "text": [json.dumps({"text": text})]})
    (line,) = _Tag(str(run), ".jsonl", 0.0, False)(table).column("line").to_pylist()
    assert shown(json.loads(line)["entities"]) == expected


def test_an_exported_tagger(tagger: Tagger, long: Sentence, expected: Any, tmp_path: Path) -> None:
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package)
    from nershift.errors import CheckpointError
    from nershift.tagger.onnx.export import export_onnx
    from nershift.tagger.onnx.tagger import OnnxTagger

    export_onnx(tagger, tmp_path / "out")
    exported = OnnxTagger.load(tmp_path / "out", threads=1)
    assert shown(e.to_dict() for e in exported.predict(" ".join(long.tokens))) == expected
    (tmp_path / "out" / "words.onnx").write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match=r"words\.onnx: has 7 bytes"):
        OnnxTagger.load(tmp_path / "out")


def test_spacy(run: Path, long: Sentence, expected: Any) -> None:
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("nershift", config={"model": str(run)})
    doc = nlp(spacy.tokens.Doc(nlp.vocab, list(long.tokens)))
    assert [(e.start_char, e.end_char, e.label_) for e in doc.ents] == expected


def test_the_server(run: Path, long: Sentence, expected: Any, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from nershift.server.app import make_app
    from nershift.server.limits import Limits
    from nershift.server.service import Service

    sizes: list[int] = []
    service = Service(run, tmp_path / "store", replace(Limits(), batch_tokens=2_048))
    tag = service.batcher._tag

    def noted(version: str, sentences: Any) -> Any:
        sizes.append(sum(map(len, sentences)))
        return tag(version, sentences)

    service.batcher._tag = noted
    with TestClient(make_app(service), base_url="http://127.0.0.1") as client:
        made = client.post("/tag", json={"texts": [" ".join(long.tokens), "Ada left ."]}).json()
        whole, short = made["results"]
        assert shown(whole["entities"]) == expected
        assert whole["sentences"] == [[0, len(long)]]
        assert short["sentences"] == [[0, 3]]
        (told,) = whole["uncertainty"]
        assert 0 < told < 1
    assert max(sizes) <= 2_048 < sum(sizes)  # others can be tagged between the parts of one sentence


def test_uncertainty_of_parts_is_that_of_the_whole() -> None:
    from nershift.server.inference import Tagged, join

    whole = Sentence.of(["w"] * 30)
    parts = Parts([whole, Sentence.of(["w"])], longest=20, overlap=10)
    (joined, short) = join(parts, [Tagged((), 0.3), Tagged((), 0.3), Tagged((), 0.7)])
    assert joined.uncertainty == pytest.approx(0.3)
    assert short.uncertainty == 0.7
    (mixed, _) = join(parts, [Tagged((), 0.0), Tagged((), 0.5), Tagged((), 0.7)])
    assert mixed.uncertainty == pytest.approx(1 - 0.5**0.5)
    assert 0.99 < join(parts, [Tagged((), 1.0)] * 3)[0].uncertainty <= 1


# -- a document of 1 MB --------------------------------------------------------------------------------------


def test_a_large_document_is_tagged_whole_as_paragraph_by_paragraph(tagger: Tagger, tmp_path: Path) -> None:
    draw = random.Random(3)
    paragraphs = []
    for _ in range(1_000):
        sentences = (" ".join(words(draw.randint(4, 30), draw.random())) + " ." for _ in range(draw.randint(5, 20)))
        paragraphs.append(" ".join(sentences))
    paragraphs[500] = " ".join(words(6_000))  # one without a stop
    document = "\n".join(paragraphs)
    assert len(document) > 1_000_000
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    whole = tagger.predict(document)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 800 << 10  # kB
    assert time.monotonic() - began < 120
    at, apart = 0, []
    for paragraph, entities in zip(paragraphs, tagger.predict(paragraphs), strict=True):
        apart += [(at + e.start, at + e.end, e.label, e.text) for e in entities]
        at += len(paragraph) + 1
    assert len(apart) > 10_000
    assert [(e.start, e.end, e.label, e.text) for e in whole] == apart
    assert all(document[e.start : e.end] == e.text for e in whole)
    (tmp_path / "document.txt").write_text(document)
    rows = list(predict_file(tagger, str(tmp_path / "document.txt")))
    assert [len(row["entities"]) for row in rows] == [len(entities) for entities in tagger.predict(paragraphs)]


@pytest.mark.parametrize("unit", ["Okafor flew from Leeds to Porto and ", ". ", "x", "1.2", "Ada", "\u0301", "语"])
def test_any_long_text_is_tagged_in_little_memory(tagger: Tagger, unit: str) -> None:
    text = unit * (300_000 // len(unit))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tagger.predict(text)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 << 10
