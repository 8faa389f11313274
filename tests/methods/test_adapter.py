"""Taggers that adapt to each sentence: an adapter of any kind is saved, found again and used."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from nershift import Tagger
from nershift.config import EncoderConfig
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence, Span
from nershift.encoders.base import make_encoder
from nershift.errors import CheckpointError
from nershift.heads.base import make_head
from nershift.methods.adapter import ADAPTERS, Neighbour, SentenceAdapter, load_adapter, register
from nershift.model import TaggingModel


class Parrot(SentenceAdapter):
    """Tags every first token with the same label."""

    def __init__(self, label: str) -> None:
        self.label = label

    def predict(self, model: TaggingModel, key: str, sentences: Sequence[Sentence]) -> list[Sentence]:
        return [s.with_spans([Span(0, 1, self.label, 0.5)]) for s in sentences]

    def neighbours(self, model: TaggingModel, sentences: Sequence[Sentence]) -> list[list[Neighbour]]:
        return [[Neighbour(s, 1.0)] for s in sentences]

    def measures(self) -> dict[str, Any]:
        return {}

    def describe(self) -> dict[str, Any]:
        return {"label": self.label}

    def save_files(self, folder: Path) -> None:
        (folder / "parrot.txt").write_text("squawk")

    @classmethod
    def rebuild(cls, description: Mapping[str, Any], folder: Path) -> Parrot:
        assert (folder / "parrot.txt").read_text() == "squawk"
        return cls(description["label"])


@pytest.fixture
def parrot() -> Iterator[Parrot]:
    yield register("parrot")(Parrot)("place")
    del ADAPTERS._parts["parrot"]


@pytest.fixture
def model() -> TaggingModel:
    encoder = make_encoder(EncoderConfig(), [Sentence.of(["Ada", "flew", "."])])
    return TaggingModel(encoder, {"target": make_head("crf", LabelSpace.of(["place"]), encoder.size)})


def test_a_tagger_keeps_an_adapter_of_any_kind(parrot: Parrot, model: TaggingModel, tmp_path: Path) -> None:
    Tagger(model, adapter=parrot).save(tmp_path)
    tagger = Tagger.load(tmp_path)
    assert isinstance(tagger.adapter, Parrot)
    assert [(e.text, e.label) for e in tagger.adaptive("Porto is far .")] == [("Porto", "place")]
    assert tagger.neighbours("Porto is far .")[0][0].to_dict() == {
        "text": "Porto is far .",
        "entities": [],
        "similarity": 1.0,
    }


@pytest.mark.parametrize(
    "text", ["{}", '{"kind": "parot"}', "[1]", "no JSON", '{"kind": "metacross", "options": {"a": 1}}']
)
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "support.json").write_text(text)
    with pytest.raises(CheckpointError, match="missing or wrong") as error:
        load_adapter(tmp_path)
    assert error.value.place == str(tmp_path / "support.json")


def test_only_the_method_of_an_adapter_is_imported(tmp_path: Path) -> None:
    (tmp_path / "with").mkdir()
    (tmp_path / "with" / "support.json").write_text(json.dumps({"kind": "metacross"}))
    code = f"""
import sys
from pathlib import Path
from nershift.errors import CheckpointError
from nershift.methods.adapter import load_adapter
papers = lambda: {{m.split(".")[2] for m in sys.modules if m.startswith("nershift.methods.")}} & {{
    "metaner", "metacross", "datnet", "crosslm", "laner"}}
assert load_adapter(Path({str(tmp_path)!r})) is None and not papers(), papers()
try:
    load_adapter(Path({str(tmp_path)!r}, "with"))
except CheckpointError:
    pass
assert papers() == {{"metacross"}}, papers()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
