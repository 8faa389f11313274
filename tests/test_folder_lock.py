"""Two trainings with one --out: the second is told, and the files of the first stay its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nershift.data.corpus import Corpus
from nershift.errors import CheckpointError, StorageError
from nershift.folder_lock import LOCK_FILE, FolderLock
from nershift.resume_run import resume
from nershift.run import pretrain, transfer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the lock needs POSIX")
SETTINGS: dict[str, Any] = {
    "device": "cpu",
    "encoder": {"words": {"size": 8}, "chars": {"filters": 8}, "recurrent": {"size": 8}},
    "train": {"updates": 2},
    "pretrain": {"updates": 2},
}


def held(folder: Path) -> FolderLock:
    return FolderLock(folder, "another training", "wait")


def test_one_at_a_time_and_nothing_is_left(tmp_path: Path) -> None:
    with held(tmp_path / "new"):
        with pytest.raises(CheckpointError, match="another training uses this folder"):
            held(tmp_path / "new")
        assert (tmp_path / "new" / LOCK_FILE).exists()
    assert list((tmp_path / "new").iterdir()) == []
    with held(tmp_path / "new"):
        pass


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    script = "import sys, time; from pathlib import Path; from nershift.folder_lock import FolderLock; "
    script += "lock = FolderLock(Path(sys.argv[1]), 'x', 'y'); print('held', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(CheckpointError):
        held(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (tmp_path / LOCK_FILE).exists()
    held(tmp_path).release()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be written"):
        held(tmp_path / "file")


def test_whoever_holds_it_is_alone_however_many_try(tmp_path: Path) -> None:
    """Eight processes take and release it in turns; none ever meets another inside."""
    script = """
import os, sys, time
from pathlib import Path
from nershift.errors import CheckpointError
from nershift.folder_lock import FolderLock
folder, got, end = Path(sys.argv[1]), 0, time.monotonic() + 2
while time.monotonic() < end:
    try:
        with FolderLock(folder, "x", "y"):
            os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))
            os.unlink(folder / "inside")
            got += 1
    except CheckpointError:
        pass
print(got)
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) for _ in range(8)
    ]
    counts = [int(process.communicate()[0]) for process in processes]  # fails where one has died
    assert sum(counts) > 8


def test_trainings_do_not_share_a_folder(make_corpus: Callable[..., Corpus], tmp_path: Path) -> None:
    corpus, out = make_corpus("news", train=20), tmp_path / "r"
    given: dict[str, Any] = {"out": out, "config": SETTINGS, "quiet": True}
    with held(out):
        for train in (
            lambda: transfer("target_only", corpus, report=False, **given),
            lambda: pretrain("finetune", [corpus], **given),
            lambda: transfer("target_only", corpus, report=False, overwrite=True, **given),
        ):
            with pytest.raises(CheckpointError, match="another training uses this folder"):
                train()
        assert [p.name for p in out.iterdir()] == [LOCK_FILE]
    transfer("target_only", corpus, report=False, **given)
    assert not (out / LOCK_FILE).exists()
    with held(out), pytest.raises(CheckpointError, match="another training"):
        resume(out, corpus, updates=1, quiet=True)
    before = os.stat(out).st_ino
    transfer("target_only", corpus, report=False, overwrite=True, **given)
    assert os.stat(out).st_ino == before


def test_two_commands_at_once(make_corpus: Callable[..., Corpus], tmp_path: Path) -> None:
    """As users do it: two terminals, one --out. One run is whole, the other command fails and says why."""
    from nershift.data.formats import write_sentences

    corpus = make_corpus("news", train=60, dev=0, test=10)
    for name, split in corpus.splits.items():
        write_sentences(tmp_path / "news" / f"{name}.conll", split)
    command = [sys.executable, "-c", "from nershift.cli import main; main()", "train", "--target", "news", "--out", "r"]
    command += ["--set", "train.updates=300", "--set", "device=cpu", "--quiet"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes = []
    for _ in range(2):
        processes.append(
            subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=-1, stderr=subprocess.PIPE, text=True)
        )
    began, codes, said = time.monotonic(), [], ""
    for process in processes:
        said += process.communicate()[1]
        codes.append(process.returncode)
    assert time.monotonic() - began < 120
    assert sorted(codes) == [0, 1], said
    assert "another training uses this folder" in said
