"""MetaCross across languages: Chinese by word and by character, and types that a language lacks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.metacross.tables import LANGUAGES, WITHOUT_MISC, cell
from nershift.data.corpus import Corpus
from nershift.data.formats import read_sentences
from nershift.data.spans import Sentence
from nershift.errors import SetupError
from nershift.run import transfer
from tiny_encoders import make_encoder_folder

pytest.importorskip("transformers")
Make = Callable[..., Any]
# Words and their types; a sentence by character has the same entities.
CHINESE = [
    [("陈明", "PER"), ("昨天", ""), ("访问", ""), ("北京大学", "ORG"), ("。", "")],
    [("王芳", "PER"), ("和", ""), ("陈明", "PER"), ("住在", ""), ("上海", "LOC"), ("。", "")],
    [("北京", "LOC"), ("昨天", ""), ("下雨", "")],
    [("王芳", "PER"), ("访问", ""), ("上海", "LOC"), ("。", "")],
]
ENGLISH = [
    [("Ada", "PER"), ("flew", ""), ("to", ""), ("Porto", "LOC"), (".", "")],
    [("Ruiz", "PER"), ("met", ""), ("the", ""), ("Dutch", "MISC"), ("in", ""), ("Leeds", "LOC"), (".", "")],
    [("Oxfam", "ORG"), ("left", ""), ("Lima", "LOC")],
    [("Ada", "PER"), ("joined", ""), ("Oxfam", "ORG"), (".", "")],
    [("Dutch", "MISC"), ("Oxfam", "ORG"), ("met", ""), ("Ada", "PER"), (".", "")],
]


def sentence(words: list[tuple[str, str]], by_character: bool = False) -> Sentence:
    tokens: list[str] = []
    spans = []
    for word, label in words:
        start = len(tokens)
        tokens += list(word) if by_character else [word]
        spans += [(start, len(tokens), label)] if label else []
    return Sentence.of(tokens, spans)


def chinese(by_character: bool) -> Corpus:
    rows = tuple(sentence(words, by_character) for words in CHINESE)
    return Corpus("zh", {"train": rows, "dev": rows, "test": rows}, language="zh")


@pytest.fixture
def english() -> Corpus:
    rows = tuple(sentence(words) for words in ENGLISH)
    return Corpus("en", {"train": rows * 2, "dev": rows}, language="en")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    text = [" ".join(word for word, _ in words) for words in ENGLISH + CHINESE]
    folder = make_encoder_folder("bert", tmp_path_factory.mktemp("bert"), text=text)
    return {
        "device": "cpu",
        "encoder": {"transformer": {"name": str(folder), "freeze_layers": 1}, "chars": {"use": False}},
        "pretrain": {"batch_size": 5, "max_steps": 20, "epochs": 20, "lr": 0.01},
        "options": {"vectors": "words", "centre": True, "adapt_lr": 0.01, "labels": {"MISC": "O"}},
    }


@pytest.mark.parametrize("by_character", [True, False])
def test_chinese_by_word_and_by_character(
    english: Corpus, settings: dict[str, Any], tmp_path: Path, by_character: bool
) -> None:
    target = chinese(by_character)
    run = transfer("metacross", target, [english], out=tmp_path / "r", config=settings, quiet=True, report=False)
    gold, found = run.predictions()
    assert [s.tokens for s in found] == [s.tokens for s in target.split("test")]
    assert [s.spans for s in gold] == [s.spans for s in target.split("test")]
    assert run.metrics["test"]["f1"] >= 0
    tagger = run.tagger()
    assert tagger.types == ("LOC", "ORG", "PER")
    text = "".join(word for word, _ in CHINESE[0])
    assert all(text[e.start : e.end] == e.text for e in tagger.adaptive(text))
    (near,) = tagger.neighbours(target.split("test")[0])
    assert len(near) == 2
    # What training saw has the same characters, however the words were cut.
    pieces = tagger.model.encoder.prepare(target.split("test")[0].tokens)
    assert len(pieces.at) == len(target.split("test")[0])
    unknown = tagger.model.encoder.tokenizer.unk_token_id
    assert all(unknown not in row for row in pieces.ids)


def test_a_dropped_type_is_nowhere_left(make_method: Make, english: Corpus, settings: dict[str, Any]) -> None:
    method = make_method("metacross", [english], chinese(True), settings=settings)
    method.check()
    stage = method.pretrain()
    assert stage.model.head("shared").space.types == ("LOC", "ORG", "PER")
    index = stage.sampler.index
    assert {span.label for s in index.sentences for span in s.spans} == {"LOC", "ORG", "PER"}
    dutch = next(s for s in stage.sampler.sentences if s.tokens[0] == "Dutch")
    assert [span.label for span in dutch.spans] == ["ORG", "PER"]
    assert {x.label for _, rows in stage.dev for s in rows for x in s.spans} == {"LOC", "ORG", "PER"}


def _real(name: str) -> Corpus:
    """The first sentences of a corpus's test split, as its train split."""
    shared = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    path = Path(os.environ.get("NERSHIFT_DATA", shared), name, "test.conll.gz")
    if not path.exists():
        pytest.skip("no folder of real corpora")
    return Corpus(name, {"train": tuple(read_sentences(path)[:500])})


@pytest.mark.parametrize("language", ["fr", "zh"])
@pytest.mark.parametrize("method", ["direct", "metacross"])
def test_the_tables_drop_misc_where_the_language_has_none(make_method: Make, method: str, language: str) -> None:
    assert set(WITHOUT_MISC) == {"fr", "zh"}
    target, source = _real(LANGUAGES[language]), _real("conll2003_en")
    config = dict(cell(method, language).config)
    made = make_method(method, [source], target, settings=config)
    made.check()
    types = {t for c in made.setup.sources for t in c.types}
    assert types == set(made.target_space.types) == {"LOC", "ORG", "PER"}
    mentions = sum(span.label != "MISC" for s in source.train for span in s.spans)
    assert sum(len(s.spans) for s in made.setup.sources[0].train) == mentions
    config["options"] = {**config["options"], "labels": {}}
    with pytest.raises(SetupError, match="types that the target lacks: MISC"):
        make_method(method, [source], target, settings=config).check()
