from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nershift.errors import CheckpointError, StorageError
from nershift.storage import clear_leftovers, load_tensors, replace_file, replacing, save_tensors, write_text


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


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX modes")
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o002, 0o077])
def test_files_are_as_readable_as_others(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        save_tensors(tmp_path / "x.safetensors", {"a": torch.ones(2)}, {})
        write_text(tmp_path / "x.json", "{}")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o666 & ~umask}


@pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="folders cannot be opened")
def test_a_new_name_is_brought_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file its content comes first, then it gets its name, then the folder is synchronised."""
    done: list[str] = []
    fsync, replace, rename = os.fsync, os.replace, Path.rename

    def note_fsync(number: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(number).st_mode) else "file")
        fsync(number)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("name"), replace(*names)))
    write_text(tmp_path / "f", "x")
    assert done == ["file", "name", "folder"]
    done.clear()
    monkeypatch.setattr(Path, "rename", lambda *names: (done.append("name"), rename(*names))[1])
    for _ in range(2):
        with replacing(tmp_path / "made") as temporary:
            temporary.mkdir()
    assert done == ["name", "folder", "name", "name", "folder"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of POSIX")
def test_a_disk_that_takes_no_more_is_told_and_nothing_half_written_stays(tmp_path: Path) -> None:
    script = """
import resource, sys
from pathlib import Path
import torch
from nershift.errors import StorageError
from nershift.storage import save_tensors, write_text
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
folder = Path(sys.argv[1])
for write in (
    lambda: save_tensors(folder / "x.safetensors", {"a": torch.ones(5_000)}, {}),
    lambda: write_text(folder / "x.txt", "x" * 5_000),
):
    try:
        write()
    except StorageError as error:
        print(error.found)
print(sorted(path.name for path in folder.iterdir()))
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    weights, text, left = done.stdout.splitlines()
    assert weights.startswith("cannot be written (")
    assert text == "cannot be written (File too large)"
    assert left == "[]"


def test_a_full_disk_has_its_own_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        from safetensors import SafetensorError

        raise SafetensorError('I/O error: Os { code: 28, kind: StorageFull, message: "No space left on device" }')

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(StorageError, match="No space left on device") as told:
        save_tensors(tmp_path / "x.safetensors", {"a": torch.ones(2)}, {})
    assert "make room on the disk" in told.value.fix
    assert list(tmp_path.iterdir()) == []
