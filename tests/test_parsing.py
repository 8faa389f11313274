"""Whatever is wrong with JSON or YAML is one kind of error, and a message where a user gave it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nershift.config import parse_settings, read_yaml
from nershift.data.formats import read_corpus
from nershift.errors import ConfigError, DataError
from nershift.evaluation.predictions import read_predictions
from nershift.parsing import parse_json, parse_yaml

HUGE, DEEP = "9" * 5_000, "[" * 100_000
LAUGHS = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_good_texts_are_read() -> None:
    assert parse_json('{"a": [1, 2.5]}') == {"a": [1, 2.5]}
    assert parse_yaml("\ufeffa: &x [1, off]\nb: *x\n") == {"a": [1, False], "b": [1, False]}
    assert parse_yaml("") is None


@pytest.mark.parametrize("text", [HUGE, DEEP, '{"a":' * 100_000, "{", "nul"])
def test_bad_json(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


BAD = [HUGE, DEEP, LAUGHS, "a: &a [*a]", "a: [", "a: b: c", "a: 2024-99-99", "\x00", "a: !!bool x", "a: !!timestamp x"]


@pytest.mark.parametrize("text", [*BAD, "- " * 3_000 + "x", "a: !!python/object:os.system x", "? {a: 1}\n: 2"])
def test_bad_yaml(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        parse_yaml(text)
    with pytest.raises(ConfigError, match="--set: cannot read the value"):
        parse_settings([f"train.lr={text}"])
    (tmp_path / "corpus.yaml").write_text(text)
    with pytest.raises(ConfigError, match="not YAML"):
        read_yaml(tmp_path / "corpus.yaml")
    with pytest.raises(DataError, match="not a readable YAML file"):
        read_corpus(tmp_path)


@pytest.mark.parametrize("text", [HUGE, DEEP, f'{{"tokens": ["a"], "gold": [], "pred": [[0, {HUGE}, "X"]]}}'])
def test_predictions(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    with pytest.raises(DataError, match=r"p\.jsonl:1: not JSON"):
        read_predictions(tmp_path / "p.jsonl")
    (tmp_path / "p.jsonl").write_text('\ufeff{"tokens": ["a"], "gold": [], "pred": []}\n')
    assert len(read_predictions(tmp_path / "p.jsonl")[0]) == 1
