from pathlib import Path

import pytest

from nershift.data.corpus import Corpus, split_name
from nershift.data.formats import (
    detect_format,
    read_corpus,
    read_sentences,
    writable,
    write_corpus,
    write_sentences,
)
from nershift.data.spans import Sentence
from nershift.errors import ConfigError, DataError

ROME = Sentence.of(["Rome", "fell"], [(0, 1, "LOC")])


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train.conll.gz", "train"),
        ("valid.txt", "dev"),
        ("validation.jsonl", "dev"),
        ("eng.testa", "dev"),
        ("eng.testb", "test"),
        ("wnut17train.conll", "train"),
        ("emerging.test.annotated", "test"),
        ("raw.txt.gz", "raw"),
        ("notes.txt", None),
        ("latest.conll", None),
    ],
)
def test_split_names(name: str, split: str | None) -> None:
    assert split_name(name) == split


def test_a_folder_of_mixed_formats(tmp_path: Path) -> None:
    write_sentences(tmp_path / "train.conll.gz", [ROME])
    write_sentences(tmp_path / "valid.jsonl", [ROME])
    (tmp_path / "test.txt").write_text("Rome B-LOC\nfell O\n")
    (tmp_path / "raw.txt").write_text("some words .\n\nmore\n")
    (tmp_path / "README.md").write_text("x")
    corpus = read_corpus(tmp_path, domain="news", language="English")
    assert list(corpus.splits) == ["train", "dev", "test", "raw"]
    assert corpus.name == tmp_path.name
    assert (corpus.domain, corpus.language) == ("news", "English")
    assert [s.tokens for s in corpus.split("raw")] == [("some", "words", "."), ("more",)]
    for split in ("train", "dev", "test"):
        assert [(s.tokens, s.spans) for s in corpus.split(split)] == [(ROME.tokens, ROME.spans)]


def test_a_file_is_train_unless_its_name_says_otherwise(tmp_path: Path) -> None:
    write_sentences(tmp_path / "mine.conll", [ROME])
    write_sentences(tmp_path / "dev.conll", [ROME])
    assert list(read_corpus(tmp_path / "mine.conll").splits) == ["train"]
    assert read_corpus(tmp_path / "mine.conll").name == "mine"
    assert list(read_corpus(tmp_path / "dev.conll").splits) == ["dev"]
    assert read_corpus(tmp_path / "dev.conll").name == tmp_path.name


def test_brat_documents_named_after_a_split_are_one_folder(tmp_path: Path) -> None:
    for name in ("test-1", "test-2"):
        write_sentences(tmp_path / "docs" / f"{name}.ann", [ROME])
    assert {k: len(v) for k, v in read_corpus(tmp_path / "docs").splits.items()} == {"train": 2}


@pytest.mark.parametrize(
    ("split", "advice"),
    [("train", "add labelled sentences"), ("dev", "--hold-out"), ("test", "not in train")],
)
def test_a_missing_split_is_told_with_what_helps(split: str, advice: str) -> None:
    with pytest.raises(DataError, match=f"has no '{split}' split") as told:
        Corpus("c", {"raw": ()}).split(split)
    assert advice in told.value.fix
    assert ("--hold-out" in told.value.fix) == (split == "dev")
    assert told.value.expected == f"{split}, beside what there is: raw"


def test_what_a_tagger_wrote_is_no_split(tmp_path: Path) -> None:
    write_sentences(tmp_path / "test.conll", [ROME])
    write_sentences(tmp_path / "test.conll.tagged.jsonl", [ROME, ROME])
    assert {k: len(v) for k, v in read_corpus(tmp_path).splits.items()} == {"test": 1}


def test_messages(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no split files"):
        read_corpus(tmp_path)
    write_sentences(tmp_path / "train.conll", [ROME])
    write_sentences(tmp_path / "train.jsonl", [ROME])
    with pytest.raises(DataError, match="both look like the train split"):
        read_corpus(tmp_path)
    (tmp_path / "unnamed").mkdir()
    write_sentences(tmp_path / "unnamed" / "notes.conll", [ROME])
    with pytest.raises(DataError, match=r"no split files among: notes\.conll"):
        read_corpus(tmp_path / "unnamed")
    with pytest.raises(DataError, match=r"name a file in it: notes\.conll"):
        read_sentences(tmp_path / "unnamed")
    with pytest.raises(DataError, match="catalogue"):
        read_corpus("no-such-corpus")
    (tmp_path / "a.xyz").write_text("x y z\n")
    with pytest.raises(DataError, match="format cannot be told"):
        read_sentences(tmp_path / "a.xyz")
    with pytest.raises(ConfigError, match="did you mean 'conll'"):
        read_sentences(tmp_path / "a.xyz", "conl")
    with pytest.raises(ConfigError, match="not written"):
        write_sentences(tmp_path / "a.sgm", [ROME])
    for to, found in (("out.xyz", "cannot be told from the name"), ("unnamed", "this is a folder")):
        with pytest.raises(DataError, match=found) as told:
            write_sentences(tmp_path / to, [ROME])
        assert told.value.fix == f"name the format: {', '.join(writable())}"
        assert ".sgm" not in told.value.expected
    with pytest.raises(ConfigError, match="did you mean 'conll'") as wrong:
        write_sentences(tmp_path / "out.xyz", [ROME], "conl")
    assert "ace2005" not in wrong.value.expected
    with pytest.raises(ConfigError, match="no scheme"):
        write_sentences(tmp_path / "a.jsonl", [ROME], scheme="BIO")
    with pytest.raises(DataError, match="raw text cannot hold"):
        write_sentences(tmp_path / "raw.txt", [ROME])


def test_txt_is_told_by_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Rome fell. Nobody cared.\nB\n")
    assert detect_format(tmp_path / "a.txt") == "text"
    assert [s.tokens for s in read_sentences(tmp_path / "a.txt")] == [
        ("Rome", "fell", "."),
        ("Nobody", "cared", "."),
        ("B",),
    ]
    (tmp_path / "b.txt").write_text("-DOCSTART- -X- O\n\nRome NNP B-LOC\nfell V O\n")
    assert detect_format(tmp_path / "b.txt") == "conll"


@pytest.mark.parametrize("format", ["conll", "jsonl", "docbin", "brat", "doccano", "argilla", "datasets"])
def test_write_corpus_and_back(format: str, tmp_path: Path) -> None:
    pytest.importorskip({"docbin": "spacy", "datasets": "datasets"}.get(format, "json"))
    corpus = Corpus("c", {"train": (ROME, ROME), "test": (ROME,), "raw": (Sentence.of(["a", "b"]),)})
    for _ in range(2):  # the second time over what the first has left
        paths = write_corpus(tmp_path / "out", corpus, format)
    assert all(p.exists() for p in paths)
    back = read_corpus(tmp_path / "out")
    assert {k: [(s.tokens, s.spans) for s in v] for k, v in back.splits.items()} == {
        k: [(s.tokens, s.spans) for s in v] for k, v in corpus.splits.items()
    }
