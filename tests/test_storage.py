from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nershift.errors import CheckpointError
from nershift.storage import clear_leftovers, load_tensors, replace_file, save_tensors, write_text


def test_tensors_and_meta_come_back(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6.0).view(2, 3).t(), "b": torch.tensor(3), "c": torch.zeros(0, 4)}
    save_tensors(tmp_path / "deep" / "x.safetensors", tensors, {"step": 3, "name": "ünï", "best": None})
    found, meta = load_tensors(tmp_path / "deep" / "x.safetensors")
    assert meta == {"step": 3, "name": "ünï", "best": None}
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[k], v) for k, v in tensors.items())


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    write_text(path, "old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        replace_file(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_leftovers_of_killed_writers_are_cleared_and_nothing_else(tmp_path: Path) -> None:
    for name in (".model.safetensors.123.tmp", ".hidden", "notes.tmp", "log.jsonl"):
        (tmp_path / name).write_text("x")
    clear_leftovers(tmp_path)
    clear_leftovers(tmp_path / "absent")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".hidden", "log.jsonl", "notes.tmp"]


def test_broken_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with pytest.raises(CheckpointError, match="no such file"):
        load_tensors(path)
    save_tensors(path, {"a": torch.ones(100)}, {})
    whole = path.read_bytes()
    for size in (0, 4, 60, len(whole) - 10):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match="not a readable safetensors file") as error:
            load_tensors(path)
        assert error.value.place == str(path)
