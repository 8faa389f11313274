"""Formats with character spans: shapes that are accepted, misfits that are named."""

import json
from pathlib import Path
from typing import Any

import pytest

from nershift.data.formats import detect_format, read_corpus, read_sentences
from nershift.data.problems import Problems
from nershift.data.spans import Sentence
from nershift.errors import DataError

TEXT = "Ada Lovelace left London ."


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))
    return path


def mentions(sentence: Sentence) -> list[tuple[str, str]]:
    return [(sentence.mention(s), s.label) for s in sentence.spans]


BOTH = [("Ada Lovelace", "PER"), ("London", "LOC")]
TRIPLES = [[0, 12, "PER"], [18, 24, "LOC"]]
OBJECTS = [{"start": a, "end": b, "label": c} for a, b, c in TRIPLES]
DOCCANO = [{"id": i, "start_offset": a, "end_offset": b, "label": c} for i, (a, b, c) in enumerate(TRIPLES)]


@pytest.mark.parametrize(
    ("record", "format"),
    [
        ({"text": TEXT, "spans": OBJECTS}, "jsonl"),
        ({"text": TEXT, "entities": TRIPLES}, "jsonl"),
        ({"text": TEXT, "labels": OBJECTS, "tokens": TEXT.split()}, "jsonl"),
        (
            {"text": TEXT, "spans": OBJECTS, "tokens": [{"start": 0, "end": 12}, {"start": 18, "end": 24}]},
            "jsonl",
        ),
        ({"id": 4, "text": TEXT, "label": TRIPLES}, "doccano"),
        ({"id": 4, "text": TEXT, "entities": DOCCANO, "relations": []}, "doccano"),
        ({"text": TEXT, "tokens": TEXT.split(), "annotation": [["PER", 0, 12], ["LOC", 18, 24]]}, "argilla"),
        ({"text": TEXT, "annotation": OBJECTS, "prediction": None}, "argilla"),
        (
            {"id": "x", "fields": {"text": TEXT}, "responses": {"ner": [{"value": OBJECTS, "user_id": "u"}]}},
            "argilla",
        ),
    ],
)
def test_record_shapes(record: dict[str, Any], format: str, tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", record)
    assert detect_format(path) == format
    (sentence,) = read_sentences(path)
    assert mentions(sentence) == BOTH
    assert sentence.text == TEXT


def test_tokens_with_tags_and_a_json_list(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"tokens": ["Rome", "fell"], "ner_tags": ["B-LOC", "O"]})
    assert mentions(read_sentences(path)[0]) == [("Rome", "LOC")]
    path = tmp_path / "a.json"
    for key in ("annotation", "spans"):
        path.write_text(json.dumps([{"text": TEXT, key: OBJECTS}] * 2, indent=1))
        assert [mentions(s) for s in read_sentences(path)] == [BOTH, BOTH]


def span(start: int, end: int, label: str = "X") -> dict[str, Any]:
    return {"start": start, "end": end, "label": label}


BAD = [  # record, kind, what is read after the repair
    ({"text": TEXT, "spans": [span(0, 99)]}, "span outside text", []),
    ({"text": TEXT, "spans": [span(-4, 3)]}, "span outside text", []),
    ({"text": TEXT, "spans": [span(4, 4)]}, "empty span", []),
    ({"text": TEXT, "spans": [span(3, 4)]}, "empty span", []),
    ({"text": TEXT, "spans": [span(0, 6)]}, "misaligned span", [("Ada Lovelace", "X")]),
    ({"text": TEXT, "spans": [span(0, 12), span(4, 12, "Y")]}, "overlap", [("Ada Lovelace", "X")]),
    ({"text": TEXT, "spans": [span(0, 3), span(0, 3)]}, "duplicate span", [("Ada", "X")]),
    ({"text": TEXT, "spans": [["a", 3, "X"]]}, "bad span", []),
    ({"text": TEXT, "spans": [{"start": 0, "end": 3}]}, "bad span", []),
    ({"text": TEXT, "spans": 3}, "bad record", []),
    ({"text": TEXT, "spans": [span(0, 3)], "labels": []}, "ambiguous record", [("Ada", "X")]),
    ({"text": TEXT, "spans": [span(0, 3)], "tokens": ["Bob"]}, "bad tokens", [("Ada", "X")]),
    ({"text": TEXT, "tokens": [[0, 3], [2, 5]]}, "bad tokens", []),
    ({"text": None}, "bad record", None),
    ({"tokens": ["a"], "tags": [3]}, "bad record", None),
    ("{broken", "bad record", None),
    ("[1]", "bad record", None),
    ({"id": 1, "text": "b"}, "duplicate id", []),
]


@pytest.mark.parametrize(("record", "kind", "after"), BAD, ids=[f"{b[1]}-{i}" for i, b in enumerate(BAD)])
def test_bad_records(record: Any, kind: str, after: list[object] | None, tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"id": 1, "text": "good"}, record)
    with pytest.raises(DataError) as caught:
        read_sentences(path, "jsonl")
    error = caught.value
    assert error.place == f"{path}:2"
    assert error.found
    assert error.expected
    assert error.fix
    problems = Problems(repair=True)
    made = read_sentences(path, "jsonl", problems)
    assert problems.counts() == {kind: 1}
    assert problems.found[0].repair
    assert len(made) == (1 if after is None else 2)
    if after is not None:
        assert mentions(made[1]) == after


def test_white_space_around_a_span_is_no_misfit(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"text": TEXT, "spans": [span(12, 18)]})
    assert mentions(read_sentences(path)[0]) == [("left", "X")]


def test_argilla_records_nobody_reviewed(tmp_path: Path) -> None:
    first = {"text": TEXT, "annotation": None, "prediction": [["PER", 0, 12, 0.5]]}
    second = {"fields": {"t": TEXT}, "responses": {}, "suggestions": {"ner": {"value": OBJECTS, "score": 1}}}
    path = lines(tmp_path / "a.jsonl", first, second, {"text": TEXT, "annotation": None})
    with pytest.raises(DataError, match="only predictions"):
        read_sentences(path)
    problems = Problems(repair=True)
    made = read_sentences(path, problems=problems)
    assert [mentions(s) for s in made] == [BOTH[:1], BOTH, []]
    assert made[0].spans[0].score == 0.5
    assert problems.counts() == {"not reviewed": 3}


def test_argilla_answers_that_differ(tmp_path: Path) -> None:
    answers = [{"value": OBJECTS[:1]}, {"value": OBJECTS}, {"value": [], "status": "discarded"}]
    path = lines(tmp_path / "a.jsonl", {"fields": {"text": TEXT}, "responses": {"ner": answers}})
    with pytest.raises(DataError, match="2 annotators"):
        read_sentences(path)
    assert mentions(read_sentences(path, problems=Problems(repair=True))[0]) == BOTH[:1]


def brat(folder: Path, text: str, *annotations: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "d.txt").write_text(text)
    (folder / "d.ann").write_text("".join(f"{a}\n" for a in annotations))
    return folder


def test_brat_pairs(tmp_path: Path) -> None:
    text = "Title\nAda met Bob. Then she left\nLondon."
    folder = brat(
        tmp_path / "x",
        text,
        "T1\tPER 6 9\tAda",
        "R1\tmet Arg1:T1 Arg2:T2",
        "T2\tPER 14 17\tBob",
        "T3\tX 28 39\tleft London",
    )
    assert detect_format(folder) == "brat"
    made = read_sentences(folder)
    assert [" ".join(s.tokens) for s in made] == ["Title", "Ada met Bob .", "Then she left London ."]
    assert [mentions(s) for s in made] == [[], [("Ada", "PER"), ("Bob", "PER")], [("left London", "X")]]
    assert [s.place.rpartition("/")[2] for s in made] == ["d.txt:1", "d.txt:2", "d.txt:2"]
    assert read_sentences(folder / "d.txt") == made
    (folder / "d.ann").unlink()
    with pytest.raises(DataError, match="missing"):
        read_sentences(folder, "brat")


@pytest.mark.parametrize(
    ("line", "kind", "after"),
    [
        ("T2\tPER 0 3;8 11\tAda Bob", "discontinuous span", [("Ada met Bob", "PER")]),
        ("T2\tPER 0 99\tAda", "span outside text", []),
        ("T2\tPER 0 3\tBob", "text mismatch", [("Ada", "PER")]),
        ("T2 PER 0 3", "bad annotation", []),
        ("T2\tPER 0 2\tAd", "misaligned span", [("Ada", "PER")]),
        ("T1\tPER 0 3\tAda", "duplicate id", [("Ada", "PER")]),
    ],
)
def test_bad_brat(line: str, kind: str, after: list[object], tmp_path: Path) -> None:
    folder = brat(tmp_path / "x", "Ada met Bob\nRome", "T1\tLOC 12 16\tRome", line)
    with pytest.raises(DataError) as caught:
        read_sentences(folder)
    assert caught.value.place == f"{folder / 'd.ann'}:2"
    assert caught.value.expected
    assert caught.value.fix
    problems = Problems(repair=True)
    assert mentions(read_sentences(folder, problems=problems)[0]) == after
    assert problems.counts() == {kind: 1}


def test_docbin_sentences_and_broken_files(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    doc = spacy.tokens.Doc(
        spacy.vocab.Vocab(),
        words=["Ada", "left", ".", "\n\n", "Bob", "stayed"],
        spaces=[True, False, False, False, True, False],
        sent_starts=[True, False, False, False, True, False],
        ents=["B-PER", "O", "O", "O", "B-PER", "O"],
    )
    path = tmp_path / "a.spacy"
    spacy.tokens.DocBin(docs=[doc]).to_disk(path)
    made = read_sentences(path)
    assert [s.tokens for s in made] == [("Ada", "left", "."), ("Bob", "stayed")]
    assert [mentions(s) for s in made] == [[("Ada", "PER")], [("Bob", "PER")]]
    path.write_bytes(b"not spacy")
    with pytest.raises(DataError, match="not a readable DocBin"):
        read_sentences(path)


def test_datasets_with_splits_and_strings(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = {"tokens": [["Rome", "fell"]], "tags": [["B-LOC", "O"]]}
    both = datasets.DatasetDict({k: datasets.Dataset.from_dict(rows) for k in ("train", "validation")})
    both.save_to_disk(str(tmp_path / "d"))
    corpus = read_corpus(tmp_path / "d")
    assert set(corpus.splits) == {"train", "dev"}
    assert mentions(corpus.dev[0]) == [("Rome", "LOC")]
    datasets.Dataset.from_dict({"tokens": [["a"]], "tags": [[3]]}).save_to_disk(str(tmp_path / "n"))
    with pytest.raises(DataError, match="numbers without names"):
        read_sentences(tmp_path / "n")
    datasets.Dataset.from_dict({"x": [1]}).save_to_disk(str(tmp_path / "x"))
    with pytest.raises(DataError, match="the columns are: x"):
        read_sentences(tmp_path / "x")


def test_missing_extra_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from nershift.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "spacy", None)
    (tmp_path / "a.spacy").write_bytes(b"")
    with pytest.raises(MissingExtraError, match=r"pip install 'nershift\[spacy\]'"):
        read_sentences(tmp_path / "a.spacy")
