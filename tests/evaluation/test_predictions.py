"""Round trips and refusals of predictions.jsonl."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nershift.data.spans import Sentence, Span
from nershift.errors import DataError
from nershift.evaluation.predictions import read_predictions, write_predictions

TOKENS = st.lists(st.text(st.characters(), min_size=1, max_size=5), min_size=1, max_size=5)


@given(st.lists(TOKENS, min_size=1, max_size=4), st.text(st.characters(), min_size=1, max_size=4))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, texts: list[list[str]], label: str) -> None:
    path = tmp_path_factory.mktemp("p") / "predictions.jsonl"
    gold = [Sentence.of(t, [(0, len(t), label)]) for t in texts]
    pred = [Sentence.of(t, [Span(0, 1, label, 0.25)]) for t in texts]
    write_predictions(path, gold, pred)
    gold_back, pred_back = read_predictions(path)
    assert gold_back == gold
    assert pred_back == pred
    assert [s.spans[0].score for s in pred_back] == [0.25] * len(texts)
    assert gold_back[-1].place == f"{path}:{len(texts)}"


def test_scores_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"tokens": ["a"], "gold": [], "pred": [[0, 1, "X"]]}\n\n', encoding="utf-8")
    _, pred = read_predictions(path)
    assert pred[0].spans[0].score is None
    write_predictions(path, pred, pred)
    assert '[0, 1, "X", null]' in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "p.jsonl:2: not JSON"),
        ("[1]", "p.jsonl:2: a JSON list"),
        ('{"tokens": ["a"], "gold": []}', "p.jsonl:2: no 'pred'"),
        ('{"tokens": "a", "gold": [], "pred": []}', "p.jsonl:2: 'tokens' is not a list"),
        ('{"tokens": [1], "gold": [], "pred": []}', "p.jsonl:2: a token that is not a string"),
        ('{"tokens": ["a"], "gold": [[0, 1]], "pred": []}', r"p.jsonl:2: 'gold' holds \[0, 1\]"),
        ('{"tokens": ["a"], "gold": [], "pred": [[0, 2, "X"]]}', "p.jsonl:2: span 0:2"),
        ('{"tokens": ["a"], "gold": [], "pred": [[0, 1, "X"], [0, 1, "Y"]]}', "p.jsonl:2: .*overlaps"),
    ],
)
def test_bad_lines_name_their_place(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"tokens": ["a"], "gold": [], "pred": []}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_predictions(path)


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_predictions(tmp_path / "missing.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(DataError, match="no predictions"):
        read_predictions(tmp_path / "empty.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"tokens": ["\xe9"]}\n')
    with pytest.raises(DataError, match="jsonl:1: byte 14 of the line is not UTF-8"):
        read_predictions(tmp_path / "latin.jsonl")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    write_predictions(path, [Sentence.of(["a"])], [[]])
    before = path.read_bytes()
    with pytest.raises(DataError, match="finite"):
        write_predictions(path, [Sentence.of(["a"])], [[Span(0, 1, "X", float("nan"))]])
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["p.jsonl"]
