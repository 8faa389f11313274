from __future__ import annotations

import builtins
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx_cases import random_encoder, random_tagger, recurrent_settings
from typer.testing import CliRunner

from nershift.cli import app
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.errors import CheckpointError, MissingExtraError, SetupError
from nershift.methods.crosslm.lm_features import LMFeatureEncoder
from nershift.methods.metacross.support import SupportIndex
from nershift.tagger.onnx.export import export_onnx
from nershift.tagger.onnx.tagger import OnnxTagger, is_exported
from nershift.tagger.tagger import Tagger

MakeCorpus = Callable[..., Corpus]
TEXT = "Okafor flew from Leeds. In Graz, Ruiz met Ada!"
WITHOUT_TORCH = """
import importlib.abc, json, sys

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers", "accelerate"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())
from nershift.tagger.onnx.tagger import OnnxTagger
tagger = OnnxTagger.load(sys.argv[1], threads=1)
print(json.dumps([e.to_dict() for e in tagger(sys.argv[2])]))
assert "torch" not in sys.modules
"""


@pytest.fixture(scope="module")
def tagger(make_corpus: MakeCorpus) -> Tagger:
    return random_tagger(random_encoder(recurrent_settings(), make_corpus("news").train), method="target_only")


@pytest.fixture(scope="module")
def folder(tagger: Tagger, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export") / "onnx"
    export_onnx(tagger, out)
    return out


def test_it_runs_where_torch_cannot_be_imported(tagger: Tagger, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(folder), TEXT], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found, theirs = json.loads(done.stdout), [e.to_dict() for e in tagger(TEXT)]
    assert len(theirs) > 1
    assert [e.pop("score") for e in found] == pytest.approx([e.pop("score") for e in theirs], abs=1e-4)
    assert found == theirs


def test_the_check_is_kept(folder: Path) -> None:
    described = json.loads((folder / "onnx.json").read_text())
    assert described["check"]["sentences"] == 203  # 25 of each built-in domain and three hard ones
    assert described["check"]["largest_difference"] < 1e-4
    assert described["precision"] == "fp32"
    assert is_exported(folder)


def test_calibrated_scores(tagger: Tagger, folder: Path) -> None:
    assert OnnxTagger.load(folder).head.temperature == 1.7
    cold = Tagger(tagger.model)
    scores = [e.score for e in OnnxTagger.load(folder)(TEXT)]
    cold.model.head("target").temperature = 1.0
    assert [e.score for e in cold(TEXT)] != pytest.approx(scores, abs=1e-3)
    cold.model.head("target").temperature = 1.7
    assert [e.score for e in cold(TEXT)] == pytest.approx(scores, abs=1e-4)


def test_parts_without_an_onnx_form(make_corpus: MakeCorpus, tmp_path: Path, tagger: Tagger) -> None:
    rows = make_corpus("news").train
    encoder, lm = (random_encoder(recurrent_settings(), rows) for _ in range(2))
    assert isinstance(encoder, RecurrentEncoder)
    assert isinstance(lm, RecurrentEncoder)
    adaptive = Tagger(tagger.model, adapter=object.__new__(SupportIndex))
    cases = {
        "more than a linear layer": random_tagger(encoder, "label-aware"),
        "a language model": random_tagger(LMFeatureEncoder.over(encoder, lm)),
        "adapts its weights": adaptive,
    }
    for why, given in cases.items():
        with pytest.raises(SetupError, match=why) as error:
            export_onnx(given, tmp_path / "out")
        assert error.value.fix
    with pytest.raises(SetupError, match="int8 is for transformer taggers"):
        export_onnx(tagger, tmp_path / "out", int8=True)
    assert list(tmp_path.iterdir()) == []


def test_word_vectors_of_sub_words_are_refused(
    encoder_folder: Callable[[str], Path], make_corpus: MakeCorpus, tmp_path: Path
) -> None:
    settings = recurrent_settings() | {"words": {"subwords": str(encoder_folder("e")), "train": False, "size": 4}}
    given = random_tagger(random_encoder(settings, make_corpus("news").train))
    with pytest.raises(SetupError, match="made of sub-words"):
        export_onnx(given, tmp_path / "out")


def test_broken_folders(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no exported tagger here") as error:
        OnnxTagger.load(tmp_path)
    assert "nershift export" in error.value.fix
    described = json.loads((folder / "onnx.json").read_text())
    for change, message in (
        ({"format": 9}, "format 9"),
        ({"kind": "other"}, "KeyError"),
        ({"decoder": {}}, "something is missing"),
    ):
        (tmp_path / "onnx.json").write_text(json.dumps(described | change))
        for name in ("words.onnx", "model.onnx"):
            (tmp_path / name).write_bytes((folder / name).read_bytes())
        with pytest.raises(CheckpointError, match=message):
            OnnxTagger.load(tmp_path)
    (tmp_path / "onnx.json").write_text(json.dumps(described))
    (tmp_path / "model.onnx").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="ONNX Runtime cannot open it"):
        OnnxTagger.load(tmp_path)
    (tmp_path / "model.onnx").unlink()
    with pytest.raises(CheckpointError, match="no such file"):
        OnnxTagger.load(tmp_path)
    (tmp_path / "onnx.json").write_text("{")
    with pytest.raises(CheckpointError, match="not readable JSON"):
        OnnxTagger.load(tmp_path)


def test_other_folders_are_left_alone(tagger: Tagger, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="holds no exported tagger"):
        export_onnx(tagger, tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"
    export_onnx(tagger, folder, sentences=[Sentence.of(["Leeds"])])  # an earlier export may be replaced


def test_missing_packages(tagger: Tagger, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith(("onnx", "onnxruntime")):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    for run in (lambda: export_onnx(tagger, tmp_path / "out"), lambda: OnnxTagger.load(folder)):
        with pytest.raises(MissingExtraError, match=r"nershift\[onnx\]"):
            run()


def test_command_line(tagger: Tagger, tmp_path: Path) -> None:
    tagger.save(tmp_path / "run")
    runner = CliRunner()
    done = runner.invoke(app, ["export", "--model", str(tmp_path / "run"), "--out", str(tmp_path / "onnx"), "--onnx"])
    assert done.exit_code == 0, done.output
    assert OnnxTagger.load(tmp_path / "onnx")(TEXT)
    done = runner.invoke(app, ["export", "--model", str(tmp_path / "run"), "--out", str(tmp_path / "copy")])
    assert done.exit_code == 0, done.output
    assert Tagger.load(tmp_path / "copy")(TEXT) == tagger(TEXT)
    for given in (["--int8"], ["--tolerance", "1"]):
        again = runner.invoke(app, ["export", "--model", str(tmp_path / "run"), "--out", str(tmp_path / "x"), *given])
        assert "needs --onnx" in str(again.exception)
    again = runner.invoke(app, ["export", "--model", str(tmp_path / "run"), "--out", str(tmp_path / "copy")])
    assert "already exists" in str(again.exception)
