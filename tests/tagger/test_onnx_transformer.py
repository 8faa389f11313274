from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from onnx_cases import assert_same, random_encoder, random_tagger

from nershift.data.spans import Sentence
from nershift.errors import SetupError
from nershift.tagger.onnx import transformer as onnx_transformer
from nershift.tagger.onnx.export import export_onnx
from nershift.tagger.onnx.tagger import OnnxTagger
from nershift.tagger.tagger import Tagger

sys.path.insert(0, str(Path(__file__).parents[1]))
from tiny_encoders import make_encoder_folder

ROWS = [
    Sentence.of(["Ada", "flew", "from", "Leeds", "to", "Porto", "."]),
    Sentence.of(["In", "Graz", ",", "Lindqvist", "met", "Moreau", "Tanaka", "."]),
    Sentence.of(["nebutol", "stopped", ",", "dr", "Novak", "informed"]),
    Sentence.of(["Lima"]),
    Sentence.of(["\x00", "Lima", "\u200b"]),
    Sentence.of(["zolpirex" * 30, "1998"]),  # a word of more sub-words than a window
    Sentence.of(["Nobody", "in", "Lima", "spoke", "in", "1998", "."] * 12),  # several windows
]
# One export each of the families, heads and schemes shared out over them.
CASES: dict[str, tuple[str, str, str, bool]] = {
    "bert": ("bert", "crf", "BIOES", False),
    "distilbert": ("distilbert", "softmax", "BIO", False),
    "mpnet": ("mpnet", "crf", "BIO", True),
    "gemma": ("gemma", "softmax", "BIOES", False),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """``made(case)``: a tagger and the folder of its export; each is made once."""
    cache: dict[str, tuple[Tagger, Path]] = {}

    def make(case: str) -> tuple[Tagger, Path]:
        if case not in cache:
            family, kind, scheme, chars = CASES[case]
            layers = 2 if family == "gemma" else 1  # its layers take turns in how far they look
            folder = make_encoder_folder(family, tmp_path_factory.mktemp("encoder") / family, layers=layers)
            settings = {
                "kind": "transformer",
                "transformer": {"name": str(folder), "max_subwords": 24, "overlap": 8},
                "chars": {"use": chars, "size": 4, "filters": 6, "widths": [2, 3], "max_length": 8},
            }
            tagger = random_tagger(random_encoder(settings, ROWS, seed=2), kind, scheme)
            out = tmp_path_factory.mktemp("onnx") / case
            try:
                check = export_onnx(tagger, out, sentences=ROWS[:3])
            except SetupError as refused:
                if family != "gemma" or torch.__version__ >= "2.13":
                    raise
                pytest.skip(f"an older torch, and it says so: {refused}")
            assert check.largest_difference < 1e-4
            assert check.tags_changed == 0
            cache[case] = tagger, out
        return cache[case]

    return make


@pytest.mark.parametrize("case", CASES)
def test_same_entities_as_torch(case: str, made: Any) -> None:
    tagger, folder = made(case)
    ours = OnnxTagger.load(folder, threads=1)
    assert_same(ours, tagger, ROWS, some=40)
    for row in ROWS:  # batches of one, of any length
        assert_same(ours, tagger, [row], some=0)
    text = "Ada flew from Leeds. In Graz, Lindqvist met Moreau!"
    assert [(e.start, e.end, e.label) for e in ours(text)] == [(e.start, e.end, e.label) for e in tagger(text)]


def test_int8_is_close_and_smaller(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tagger, folder = made("bert")
    # The float graph is there already; making it again would only take time.
    monkeypatch.setattr(onnx_transformer, "write_model", lambda e, p, path: shutil.copy(folder / "model.onnx", path))
    with pytest.raises(SetupError, match=r"% of \d+ tags change, more than 0\.0%") as error:
        export_onnx(tagger, tmp_path / "strict", int8=True, tolerance=0.0)
    assert "--int8" in error.value.fix
    assert not (tmp_path / "strict").exists()
    check = export_onnx(tagger, tmp_path / "int8", int8=True, sentences=ROWS, tolerance=0.5)
    assert 0 < check.largest_difference < 0.1 * check.largest_score
    assert check.tags_changed < 0.2
    ours = OnnxTagger.load(tmp_path / "int8")
    assert ours.description["precision"] == "int8"
    assert sorted(p.name for p in (tmp_path / "int8").iterdir()) == [
        "manifest.json",
        "model.onnx",
        "onnx.json",
        "tokenizer.json",
    ]
    assert len(ours.tag_sentences(ROWS)) == len(ROWS)


def test_what_torch_cannot_write_is_a_message(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tagger, _ = made("bert")

    def fail(*args: Any, **options: Any) -> None:
        raise RuntimeError("no such operator\nmore")

    monkeypatch.setattr("torch.onnx.export", fail)
    with pytest.raises(SetupError, match=r"cannot write BertModel as ONNX \(no such operator\)"):
        export_onnx(tagger, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
