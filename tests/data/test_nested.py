"""Entities that overlap: allowed where somebody says so, kept from file to file, scored and shown."""

import json
from pathlib import Path
from random import Random

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from test_roundtrips import labels, many, plain, text_sentences, token_sentences, tokenised_sentences
from typer.testing import CliRunner

from nershift.cli.data import register
from nershift.cli.score import register as register_score
from nershift.data.checks import check
from nershift.data.corpus import Corpus
from nershift.data.formats import read_corpus, read_sentences, write_corpus, write_sentences
from nershift.data.labels import LabelSpace
from nershift.data.problems import Problems
from nershift.data.spans import Sentence, Span, in_parts, overlapping
from nershift.errors import DataError
from nershift.evaluation.error_analysis import analyse
from nershift.evaluation.metrics import score, token_scores
from nershift.evaluation.predictions import read_predictions, write_predictions
from nershift.evaluation.vote import vote
from nershift.reports import html, markdown, text
from nershift.reports.model import RunReport
from nershift.training.mention_replacement import replace_mentions

LEEDS = Sentence.of(["the", "University", "of", "Leeds", "won"], [(1, 4, "ORG"), (3, 4, "LOC")], nested=True)


@st.composite
def nested(draw: st.DrawFn, sentences: st.SearchStrategy[Sentence]) -> Sentence:
    """Any spans: within, across and on top of each other, but none twice."""
    sentence = draw(sentences)
    n = len(sentence)
    borders = st.tuples(st.integers(0, max(n - 1, 0)), st.integers(1, max(n, 1))).filter(lambda b: b[0] < b[1])
    spans = draw(st.lists(st.tuples(borders, labels), max_size=6, unique=True)) if n else []
    made = [Span(start, end, label) for (start, end), label in spans]
    return Sentence.of(sentence.tokens, made, sentence.text, sentence.offsets, nested=True)


def there_and_back(folder: Path, name: str, sentences: list[Sentence], suffix: str) -> list[Sentence]:
    path = folder / f"file{suffix}"
    write_sentences(path, sentences, name)
    return read_sentences(path, name, nested=True)


@many
@given(st.lists(nested(st.one_of(token_sentences(), text_sentences())), min_size=1, max_size=4))
def test_formats_with_tokens_and_spans(tmp_path_factory: pytest.TempPathFactory, sentences: list[Sentence]) -> None:
    folder = tmp_path_factory.mktemp("n")
    for name, suffix in (("jsonl", ".jsonl"), ("docbin", ".spacy")):
        if name == "docbin":
            pytest.importorskip("spacy")
        back = there_and_back(folder, name, sentences, suffix)
        assert plain(back) == plain(sentences)
        assert all(s.nested for s in back)


@many
@given(st.lists(nested(token_sentences()), min_size=1, max_size=4))
def test_argilla(tmp_path_factory: pytest.TempPathFactory, sentences: list[Sentence]) -> None:
    folder = tmp_path_factory.mktemp("n")
    assert plain(there_and_back(folder, "argilla", sentences, ".jsonl")) == plain(sentences)


@many
@given(st.lists(nested(tokenised_sentences()).filter(lambda s: s.tokens), min_size=1, max_size=4))
def test_formats_that_keep_text_alone(tmp_path_factory: pytest.TempPathFactory, sentences: list[Sentence]) -> None:
    folder = tmp_path_factory.mktemp("n")
    assert there_and_back(folder, "doccano", sentences, ".jsonl") == sentences

    def mentions(made: list[Sentence]) -> list[tuple[int, int, str]]:
        starts = [sum(map(len, made[:i])) for i in range(len(made))]
        return sorted((a + s.start, a + s.end, s.label) for a, m in zip(starts, made, strict=True) for s in m.spans)

    assert mentions(there_and_back(folder, "brat", sentences, ".ann")) == mentions(sentences)


@many
@given(nested(token_sentences()), st.integers(1, 4))
def test_parts_cut_no_entity(sentence: Sentence, max_tokens: int) -> None:
    parts = in_parts(sentence, max_tokens)
    assert [t for p in parts for t in p.tokens] == list(sentence.tokens)
    starts = [sum(map(len, parts[:i])) for i in range(len(parts))]
    spans = [(a + s.start, a + s.end, s.label) for a, p in zip(starts, parts, strict=True) for s in p.spans]
    assert spans == [(s.start, s.end, s.label) for s in sentence.spans]


@many
@given(nested(token_sentences()))
def test_layers_are_flat_and_have_every_span(sentence: Sentence) -> None:
    layers = sentence.layers()
    assert not any(overlapping(layer.spans) for layer in layers)
    assert sorted(s for layer in layers for s in layer.spans) == list(sentence.spans)


@many
@given(nested(token_sentences()), st.integers(0, 99))
def test_replaced_mentions_keep_every_entity(sentence: Sentence, seed: int) -> None:
    words = {s.label: [("x",), ("y", "z", "q")] for s in sentence.spans}
    made = replace_mentions(sentence, words, 0.7, Random(seed))
    assert sorted(s.label for s in made.spans) == sorted(s.label for s in sentence.spans)
    inside = {(a.label, b.label) for a in sentence.spans for b in sentence.spans if a.start <= b.start < b.end <= a.end}
    assert inside <= {(a.label, b.label) for a in made.spans for b in made.spans if a.start <= b.start < b.end <= a.end}


def test_an_outer_entity_grows_with_the_inner_one() -> None:
    made = replace_mentions(LEEDS, {"LOC": [("New", "York")], "ORG": [("IBM",)]}, 1.0, Random(0))
    assert made.tokens == ("the", "University", "of", "New", "York", "won")
    assert made.spans == (Span(1, 5, "ORG"), Span(3, 5, "LOC"))


def test_overlap_needs_the_flag_and_no_span_comes_twice() -> None:
    with pytest.raises(DataError, match="overlaps"):
        Sentence.of(LEEDS.tokens, LEEDS.spans)
    twins = Sentence.of(["Leeds"], [(0, 1, "LOC"), (0, 1, "GPE")], nested=True)
    assert [s.label for s in twins.spans] == ["GPE", "LOC"]
    with pytest.raises(DataError, match="there twice"):
        Sentence.of(["Leeds"], [(0, 1, "LOC"), (0, 1, "LOC")], nested=True)
    predicted = Sentence.of(LEEDS.tokens).with_spans(LEEDS.spans)
    assert predicted.nested
    assert predicted == LEEDS
    assert not predicted.with_spans(()).spans
    corpus = Corpus("c", {"train": (LEEDS,), "test": (twins,)})
    assert corpus.nested
    assert not Corpus("c", {"train": (Sentence.of(["a"]),)}).nested
    assert [s.spans for s in corpus.mapped({"GPE": "LOC"}).test] == [(Span(0, 1, "LOC"),)]


def test_flat_corpora_keep_their_digest() -> None:
    flat = Corpus("c", {"train": (Sentence.of(["Ada", "left"], [(0, 1, "PER")]),), "raw": (Sentence.of(["x"]),)})
    assert flat.digest() == "28bea449e16f2501981d2dced318de7f0d7b977eb36e7bed9601814e582efc3c"
    assert Corpus("c", {"train": (LEEDS,)}).digest() != Corpus("c", {"train": LEEDS.layers()[:1]}).digest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_corpus(tmp_path / "in", Corpus("in", {"train": (LEEDS, LEEDS), "test": (LEEDS,)}), "jsonl")
    return tmp_path / "in"


def test_a_corpus_says_that_it_is_nested(folder: Path) -> None:
    assert (folder / "corpus.yaml").read_text() == "nested: true\n"
    corpus = read_corpus(folder)
    assert corpus.nested
    assert plain(corpus.train) == plain([LEEDS, LEEDS])
    assert plain(read_sentences(folder / "test.jsonl")) == plain([LEEDS])
    with pytest.raises(DataError, match="--nested"):
        read_corpus(folder, nested=False)
    (folder / "corpus.yaml").unlink()
    with pytest.raises(DataError, match=r"overlaps(?s:.)*--nested"):
        read_corpus(folder)
    assert plain(read_corpus(folder, nested=True).train) == plain([LEEDS, LEEDS])
    for bad in ("nested: maybe", "nest: true", "- 1", ": :"):
        (folder / "corpus.yaml").write_text(bad)
        with pytest.raises(DataError, match=r"corpus\.yaml"):
            read_corpus(folder)


def test_repair_without_the_flag_keeps_the_longer_one(tmp_path: Path) -> None:
    write_sentences(tmp_path / "a.jsonl", [LEEDS])
    problems = Problems(repair=True)
    (sentence,) = read_sentences(tmp_path / "a.jsonl", problems=problems)
    assert problems.counts() == {"overlap": 1}
    assert [s.label for s in sentence.spans] == ["ORG"]
    record = {"text": "Leeds", "spans": [[0, 5, "LOC"]] * 2}
    (tmp_path / "b.jsonl").write_text(json.dumps(record))
    with pytest.raises(DataError, match="annotated twice"):
        read_sentences(tmp_path / "b.jsonl", nested=True)


def test_formats_with_tags_refuse(tmp_path: Path) -> None:
    for name in ("conll", "datasets"):
        with pytest.raises(DataError, match=rf"format '{name}' cannot hold(?s:.)*jsonl"):
            write_sentences(tmp_path / "out", [LEEDS], name)
    assert not list(tmp_path.iterdir())
    with pytest.raises(DataError, match="one tag per token"):
        LabelSpace.of(["LOC", "ORG"]).encode(LEEDS.spans, len(LEEDS))


def test_scores_and_analysis() -> None:
    found = LEEDS.with_spans([Span(1, 4, "ORG", 0.9), Span(3, 4, "ORG", 0.5), Span(3, 5, "LOC", 0.4)])
    scores = score([LEEDS], [found])
    assert (scores.micro.correct, scores.micro.predicted, scores.micro.support) == (1, 3, 2)
    tokens = token_scores([LEEDS], [found])
    assert (tokens.micro.correct, tokens.micro.predicted, tokens.micro.support) == (4, 5, 4)
    assert analyse([LEEDS], [found]).totals == {"correct": 1, "type": 1, "spurious": 1}
    assert score([LEEDS], [LEEDS.spans]).f1 == 1.0


def test_predictions_and_reports(tmp_path: Path) -> None:
    found = LEEDS.with_spans([Span(1, 4, "ORG", 0.9), Span(2, 5, "LOC", 0.4)])
    write_predictions(tmp_path / "p.jsonl", [LEEDS, LEEDS], [found, LEEDS])
    assert read_predictions(tmp_path / "p.jsonl") == ([LEEDS, LEEDS], [found, LEEDS])
    report = RunReport.of("nested", *read_predictions(tmp_path / "p.jsonl"))
    assert RunReport.from_dict(report.to_dict()) == report
    page = html.render(report)
    assert page.count("University") == markdown.render(report).count("University") == 6  # two layers, three lines
    assert text.coloured(LEEDS).plain == "the [University of Leeds ORG] won\nthe University of [Leeds LOC] won"


def test_votes_overlap_only_where_answers_do() -> None:
    flat = LEEDS.layers()
    assert vote([[LEEDS], [LEEDS], [flat[0]]])[0].spans == LEEDS.spans
    (one,) = vote([[flat[0]], [flat[0]], [flat[1]]])
    assert one.spans == flat[0].spans
    assert not one.nested


def run(*words: str | Path) -> tuple[int, str, BaseException | None]:
    app = typer.Typer()
    register(app)
    register_score(app)
    result = CliRunner().invoke(app, [str(w) for w in words])
    return result.exit_code, result.output, result.exception


def test_command_line(folder: Path) -> None:
    alone = folder.parent / "alone.jsonl"
    write_sentences(alone, [LEEDS])
    assert {f.kind for f in check(alone).findings} == {"overlap"}
    assert run("check", alone, "--strict")[0] == 1
    assert run("check", alone, "--strict", "--nested")[0] == 0
    assert run("check", folder, "--strict")[0] == 1  # train and test share a sentence; nothing overlaps
    assert isinstance(run("convert", alone, folder.parent / "b.ann")[2], DataError)
    assert run("convert", alone, folder.parent / "b.ann", "--nested")[0] == 0
    assert read_sentences(folder.parent / "b.ann", nested=True)[0].spans == LEEDS.spans
    assert run("convert", folder, folder.parent / "out")[0] == 0  # in jsonl, as columns cannot hold it
    assert read_corpus(folder.parent / "out").splits == read_corpus(folder).splits
    code, out, _ = run("evaluate", "--gold", alone, "--pred", alone, "--nested", "--json")
    assert code == 0
    assert json.loads(out)["scores"]["support"] == 2
