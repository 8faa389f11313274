"""Folders whose files are not as they were written, one kind of damage at a time."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nershift.data.corpus import Corpus
from nershift.errors import CheckpointError
from nershift.manifest import MANIFEST, check_files, manifested, sha256
from nershift.run import pretrain, transfer
from nershift.run_folder import Run
from nershift.tagger.ensemble import Ensemble
from nershift.tagger.tagger import Tagger


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of three files in a folder that has held another file before."""
    (tmp_path / "notes.txt").write_text("mine")
    with manifested(tmp_path):
        (tmp_path / "a.json").write_text("{}")
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "b.bin").write_bytes(bytes(range(256)) * 9_000)
        (tmp_path / "empty").touch()
    return tmp_path


def test_what_was_written_meanwhile_is_listed(folder: Path) -> None:
    files = json.loads((folder / MANIFEST).read_text())["files"]
    assert sorted(files) == ["a.json", "deep/b.bin", "empty"]
    assert files["deep/b.bin"] == {"bytes": 256 * 9_000, "sha256": sha256(folder / "deep" / "b.bin")}
    assert files["empty"]["sha256"].startswith("e3b0c442")  # as everybody has it
    (folder / "notes.txt").write_text("changed")
    check_files(folder)


def test_writing_again_lists_what_is_there_then(folder: Path) -> None:
    with manifested(folder):
        with manifested(folder):
            (folder / "a.json").write_text("[]")
        (folder / "new").touch()
    assert sorted(json.loads((folder / MANIFEST).read_text())["files"]) == ["a.json", "new"]
    check_files(folder)


@pytest.mark.parametrize("at", [0, 255, 1 << 20, 256 * 9_000 - 1])
def test_every_flipped_bit_is_noticed(folder: Path, at: int) -> None:
    path = folder / "deep" / "b.bin"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="not as it was written"):
        check_files(folder)


def test_files_that_are_cut_short_or_missing_are_named(folder: Path) -> None:
    path = folder / "deep" / "b.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"b\.bin: has 2303999 bytes, not 2304000"):
        check_files(folder)
    path.unlink()
    with pytest.raises(CheckpointError, match=r"b\.bin: is missing"):
        check_files(folder)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": 1}',
        '{"format": 9, "files": {}}',
        '{"format": 1, "files": ["a.json"]}',
        '{"format": 1, "files": {"a.json": 3}}',
        '{"format": 1, "files": {"/dev/zero": {}}}',
        '{"format": 1, "files": {"../x": {}}}',
        '{"format": 1, "files": {"": {}}}',
        "[" * 100_000,
    ],
)
def test_a_manifest_that_is_none_is_told(folder: Path, text: str) -> None:
    (folder / MANIFEST).write_text(text)
    with pytest.raises(CheckpointError, match=MANIFEST):
        check_files(folder)


def test_a_folder_without_one_is_not_checked(folder: Path) -> None:
    (folder / MANIFEST).unlink()
    (folder / "a.json").write_text("changed")
    check_files(folder)


@pytest.fixture(scope="module")
def run(make_corpus: Callable[..., Corpus], tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings: dict[str, Any] = {
        "device": "cpu",
        "encoder": {"words": {"size": 8}, "chars": {"filters": 8}, "recurrent": {"size": 8}},
        "train": {"updates": 2},
    }
    out = tmp_path_factory.mktemp("run") / "r"
    transfer("target_only", make_corpus("news", train=20), out=out, config=settings, quiet=True, report=False)
    return out


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_damaged_run_is_not_loaded_unless_asked(run: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(run, tmp_path / "r")
    path = tmp_path / "r" / name
    data = path.read_bytes()
    at = data.index(b"person") if name == "model.json" else len(data) - 2
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    for load in (Tagger.load, Tagger.from_pretrained, lambda folder: Ensemble.load([folder])):
        with pytest.raises(CheckpointError, match=rf"{name}: is not as it was written"):
            load(tmp_path / "r")
    assert Tagger.load(tmp_path / "r", verify=False).types
    assert Ensemble.load([tmp_path / "r"], verify=False).types


def test_loading_does_not_bring_in_the_compiler(run: Path) -> None:
    """A second of every command, and 90 MB of a server, for nothing."""
    script = (
        f"import sys; from nershift.tagger.tagger import Tagger; Tagger.load({str(run)!r})('Ada left.');"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False"]


def test_a_command_does_not_end_well_over_damaged_weights(
    run: Path, make_corpus: Callable[..., Corpus], tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "r")
    config = {"device": "cpu", "encoder": Tagger.load(run).model.encoder.describe()["config"], "train": {"updates": 2}}
    again = {"out": tmp_path / "r", "config": config, "quiet": True, "report": False}
    assert transfer("target_only", make_corpus("news", train=20), **again).f1 == Run.open(run).f1
    weights = tmp_path / "r" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\1")
    with pytest.raises(
        CheckpointError, match=r"model\.safetensors: the run is finished, but damaged: is not as it was written"
    ):
        transfer("target_only", make_corpus("news", train=20), **again)


def test_a_damaged_pretraining_is_no_start(make_corpus: Callable[..., Corpus], tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "device": "cpu",
        "encoder": {"words": {"size": 8}, "chars": {"filters": 8}, "recurrent": {"size": 8}},
        "pretrain": {"updates": 2},
    }
    given = {"out": tmp_path / "p", "config": settings, "quiet": True}
    assert pretrain("finetune", [make_corpus("news", train=20)], **given) == tmp_path / "p"
    pretrain("finetune", [make_corpus("news", train=20)], **given)
    (tmp_path / "p" / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        pretrain("finetune", [make_corpus("news", train=20)], **given)


def test_metrics_that_were_cut_short_are_told(run: Path, tmp_path: Path) -> None:
    text = (run / "metrics.json").read_text()
    (tmp_path / "metrics.json").write_text(text[: len(text) // 2])
    with pytest.raises(CheckpointError, match="cannot be read") as told:
        Run.open(tmp_path)
    assert told.value.fix
