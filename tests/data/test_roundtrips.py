"""Write, read, compare: every format with odd but legal tokens."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nershift.data.formats import FORMATS, read_sentences, write_sentences
from nershift.data.labels import SCHEMES
from nershift.data.spans import Sentence
from nershift.data.tokenizer import tokenize
from nershift.errors import DataError

ODD = [
    "#",
    "#tag",
    "# x".replace(" ", "\u00a0"),
    "-DOCSTART-",
    "\u00a0",
    "\u2028",
    "\x85",
    "\ufeff",
    "O",
    "B-PER",
]
ODD += [
    '"',
    "\\",
    "{",
    "\u200b",
    "e\u0301",
    "👩‍🚀",
    "\x1c",
    "\x00",
    "T1",
    "'s",
    "\u3000",
    "-",
    "\x0b",
    "\x0c",
]
SPACES = " \t\n\r"
tokens = st.one_of(
    st.sampled_from(ODD),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters=SPACES), min_size=1, max_size=6),
)
labels = st.sampled_from(["PER", "geo-loc", "Multi-tissue_structure", "地点", "B-X", "O", "a&b"])


@st.composite
def spans_for(draw: st.DrawFn, length: int) -> list[tuple[int, int, str]]:
    spans, at = [], 0
    while at < length and draw(st.booleans()):
        start = draw(st.integers(at, length - 1))
        end = draw(st.integers(start + 1, min(length, start + 4)))
        spans.append((start, end, draw(labels)))
        at = end
    return spans


@st.composite
def token_sentences(draw: st.DrawFn) -> Sentence:
    """A sentence without text, as columns give it."""
    words = draw(st.lists(tokens, min_size=1, max_size=7))
    return Sentence.of(words, draw(spans_for(len(words))))


@st.composite
def text_sentences(draw: st.DrawFn) -> Sentence:
    """A sentence cut out of text, with any gaps between tokens, or none."""
    words = draw(st.lists(tokens, min_size=1, max_size=7))
    text, offsets = draw(st.sampled_from(["", " ", "  "])), []
    for word in words:
        offsets.append((len(text), len(text) + len(word)))
        text += word + draw(st.sampled_from(["", " ", "  ", "\t", "\n"]))
    return Sentence.of(words, draw(spans_for(len(words))), text, offsets)


@st.composite
def tokenised_sentences(draw: st.DrawFn) -> Sentence:
    """A sentence whose tokens are those of the tokenizer: for formats that keep text alone."""
    text = draw(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=30))
    offsets = tokenize(text)
    return Sentence.of([text[a:b] for a, b in offsets], draw(spans_for(len(offsets))), text, offsets)


def there_and_back(name: str, sentences: list[Sentence], suffix: str = "", **options: str) -> list[Sentence]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / ("file" + suffix)
        write_sentences(path, sentences, name, **options)
        assert not [p for p in Path(folder).iterdir() if p.name.startswith(".")]
        return read_sentences(path, name)


def plain(sentences: list[Sentence]) -> list[object]:
    return [(s.tokens, s.spans) for s in sentences]


many = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
few = settings(many, max_examples=12)


@many
@given(st.lists(token_sentences(), min_size=1, max_size=4), st.sampled_from(SCHEMES))
def test_conll(sentences: list[Sentence], scheme: str) -> None:
    with TemporaryDirectory() as folder:
        for name in ("a.conll", "a.conll.gz"):
            path = Path(folder) / name
            write_sentences(path, sentences, scheme=scheme)
            assert plain(read_sentences(path, scheme=scheme)) == plain(sentences)
            assert plain(read_sentences(path)) == plain(sentences)


@many
@given(st.lists(st.one_of(token_sentences(), text_sentences()), min_size=1, max_size=4))
def test_jsonl_keeps_text_tokens_and_spans(sentences: list[Sentence]) -> None:
    back = there_and_back("jsonl", sentences, ".jsonl")
    assert plain(back) == plain(sentences)
    assert [b.text for b in back] == [s.to_text()[0] for s in sentences]
    assert [b.offsets for b in back] == [s.to_text()[1] for s in sentences]


@many
@given(st.lists(token_sentences(), min_size=1, max_size=4))
def test_argilla_keeps_tokens(sentences: list[Sentence]) -> None:
    assert plain(there_and_back("argilla", sentences, ".jsonl")) == plain(sentences)


@many
@given(st.lists(tokenised_sentences(), min_size=1, max_size=4))
def test_doccano_keeps_text_and_spans(sentences: list[Sentence]) -> None:
    assert there_and_back("doccano", sentences, ".jsonl") == sentences


@many
@given(st.lists(tokenised_sentences().filter(lambda s: s.tokens), min_size=1, max_size=4))
def test_brat_keeps_tokens_and_mentions_in_order(sentences: list[Sentence]) -> None:
    def flat(made: list[Sentence]) -> object:
        base, spans = 0, []
        for s in made:
            spans += [(base + x.start, base + x.end, x.label) for x in s.spans]
            base += len(s)
        return [t for s in made for t in s.tokens], spans

    assert flat(there_and_back("brat", sentences, ".ann")) == flat(sentences)


@few
@given(st.lists(token_sentences(), min_size=1, max_size=4))
def test_raw(sentences: list[Sentence]) -> None:
    bare = [Sentence(s.tokens) for s in sentences]
    assert there_and_back("raw", bare, ".raw") == bare


@many
@given(st.lists(st.one_of(token_sentences(), text_sentences()), min_size=1, max_size=3))
def test_docbin(sentences: list[Sentence]) -> None:
    pytest.importorskip("spacy")
    back = there_and_back("docbin", sentences, ".spacy")
    assert plain(back) == plain(sentences)
    assert [b.text for b in back] == [s.to_text()[0] for s in sentences]


@few
@given(st.lists(token_sentences(), min_size=1, max_size=3), st.sampled_from(["BIO", "BIOES"]))
def test_datasets(sentences: list[Sentence], scheme: str) -> None:
    pytest.importorskip("datasets")
    assert plain(there_and_back("datasets", sentences, scheme=scheme)) == plain(sentences)


def test_scores_survive_jsonl() -> None:
    sentence = Sentence.of(["Rome"]).with_spans([])
    from nershift.data.spans import Span

    scored = sentence.with_spans([Span(0, 1, "LOC", 0.25)])
    assert there_and_back("jsonl", [scored])[0].spans[0].score == 0.25


@pytest.mark.parametrize("token", ["a\tb", "a\nb", ""])
def test_columns_refuse_what_they_cannot_hold(token: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot stand in a column"):
        write_sentences(tmp_path / "a.conll", [Sentence.of(["x", token])])
    with pytest.raises(DataError, match="no tokens"):
        write_sentences(tmp_path / "a.conll", [Sentence.of([])])
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    for name in ("a.conll", "a.jsonl"):
        path = tmp_path / name
        write_sentences(path, [Sentence.of(["old"])])
        before = path.read_bytes()
        with pytest.raises(DataError, match="UTF-8"):
            write_sentences(path, [Sentence.of(["new"]), Sentence.of(["\ud800"])])
        assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.conll", "a.jsonl"]


def test_every_writable_format_is_tested_here() -> None:
    written: dict[str, Callable[..., None]] = {k: f.write for k, f in FORMATS.items() if f.write is not None}
    tested = {"conll", "jsonl", "argilla", "doccano", "brat", "raw", "docbin", "datasets"}
    assert set(written) == tested
