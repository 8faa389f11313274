from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from made_results import store

from experiments.cells import Cell
from experiments.jobs import run_cell, run_pretraining
from experiments.pool import run_grid
from experiments.ray_pool import RayPool
from experiments.store import ResultStore
from nershift.data.builtin import builtin_corpus
from nershift.data.formats import write_corpus
from nershift.errors import SetupError

ray = pytest.importorskip("ray")
SMALL = {
    "encoder": {"words": {"size": 8}, "chars": {"size": 4, "filters": 8}, "recurrent": {"size": 8}},
    "train": {"epochs": 2},
    "pretrain": {"epochs": 40, "checkpoint_steps": 4},
}


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    for name, domain in (("wikigold", "court"), ("wnut2017", "chat")):
        corpus = builtin_corpus(domain)
        write_corpus(folder / name, corpus.with_splits(**{k: v[:40] for k, v in corpus.splits.items()}))
    monkeypatch.setenv("NERSHIFT_DATA", str(folder))
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (root, root / "src"))))
    return folder


def _workers(data: Path) -> list[int]:
    """Processes of Ray that have begun a task of the grid over these data."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                begun = (entry / "cmdline").read_bytes().startswith(b"ray::_run")
                if begun and str(data).encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.slow
def test_a_grid_on_two_ray_workers_survives_the_loss_of_one(corpora: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    results = ResultStore(tmp_path, work)
    cells = [Cell("t", "finetune", "wikigold", ("wnut2017",), s, SMALL, joint=False) for s in (1, 2)]
    killed, over = list[int](), threading.Event()

    def kill_one() -> None:
        while not over.is_set() and not killed:
            if list(work.glob("pretrained-*/state/*.checkpoint.safetensors")):
                for pid in _workers(corpora)[:1]:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
            time.sleep(0.02)

    watcher = threading.Thread(target=kill_one)
    watcher.start()
    outcome = run_grid(cells, results, workers=2, quiet=True, pool=partial(RayPool, address="local"))
    over.set()
    watcher.join()
    assert killed
    assert outcome.done == 2
    assert not outcome.failed
    # The same numbers as without Ray, the loss and the resuming.
    for cell in cells:
        run_pretraining(cell, tmp_path / "plain")
        run_cell(cell, tmp_path / "plain")
        ours, plain = results.get(cell), store(tmp_path / "plain").get(cell)
        assert ours is not None
        assert plain is not None
        assert ours.metrics["test"] == plain.metrics["test"]
        assert ours.origin["at_once"] == 2
    assert not list(work.glob(".grid-*"))


def test_an_address_where_nothing_answers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot reach a Ray cluster"):
        RayPool(1, tmp_path, "127.0.0.1:9")
