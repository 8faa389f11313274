"""The folder ``fast`` is optional: without it LANER trains, tags and scores as with it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.methods.laner import head as module
from nershift.run import transfer

Make = Callable[..., Any]
SCRIPT = """
import json, sys
sys.modules["nershift.methods.laner.fast"] = None  # as if the folder were deleted
import nershift
from nershift.methods.laner import head
assert head.fast is None
texts = [nershift.Sentence.of(tokens) for tokens in json.load(sys.stdin)]
tagged = nershift.Tagger.load(sys.argv[1]).tag_sentences(texts)
print(json.dumps([[(s.start, s.end, s.label, s.score) for s in t.spans] for t in tagged]))
"""


@pytest.fixture
def corpus(make_corpus: Make) -> Corpus:
    return make_corpus("news", train=40, dev=8, test=20)


@pytest.fixture
def config(tiny: dict[str, Any]) -> dict[str, Any]:
    options = {"label_size": 6, "check": True}
    return merge(tiny, {"encoder": {"kind": "recurrent"}, "options": options, "train": {"epochs": 6}})


def test_a_process_without_the_folder_tags_alike(corpus: Corpus, config: dict[str, Any], tmp_path: Path) -> None:
    run = transfer("laner", corpus, out=tmp_path / "run", config=config, quiet=True)
    tokens = json.dumps([s.tokens for s in corpus.test])
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "run")]
    answer = subprocess.run(command, input=tokens, capture_output=True, text=True, check=True).stdout
    expected = [s.spans for s in run.tagger().tag_sentences(corpus.test)]
    assert sum(map(len, expected)) > 5
    for ours, theirs in zip(json.loads(answer), expected, strict=True):
        assert [tuple(s[:3]) for s in ours] == [(s.start, s.end, s.label) for s in theirs]
        assert [s[3] for s in ours] == pytest.approx([s.score for s in theirs], rel=1e-4)


def test_training_without_the_folder_gives_the_same_tags(
    corpus: Corpus, config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = transfer("laner", corpus, out=tmp_path / "fast", config=config, quiet=True)
    assert fast.metrics["decoding"]["differ"] == 0
    monkeypatch.setattr(module, "fast", None)
    plain = transfer("laner", corpus, out=tmp_path / "plain", config=config, quiet=True)
    assert "decoding" not in plain.metrics  # there is nothing to compare
    assert [s.spans for s in plain.predictions()[1]] == [s.spans for s in fast.predictions()[1]]
