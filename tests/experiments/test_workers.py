from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from made_results import ORIGIN, store

from experiments import jobs, pool, workers
from experiments.cells import Cell
from experiments.jobs import Failure, out_of_memory, run_cell, run_job, run_pretraining
from experiments.plan import Job
from experiments.pool import run_grid, workers_that_fit
from experiments.store import ResultStore
from experiments.workers import _NO_FORK, Workers
from nershift.data.builtin import builtin_corpus
from nershift.data.formats import write_corpus

SMALL = {
    "encoder": {"words": {"size": 8}, "chars": {"size": 4, "filters": 8}, "recurrent": {"size": 8}},
    "train": {"epochs": 2, "batch_size": 8},
    "pretrain": {"epochs": 30, "batch_size": 8, "checkpoint_steps": 4},
}


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    for name, domain in (("wikigold", "court"), ("wnut2017", "chat")):
        corpus = builtin_corpus(domain)
        write_corpus(folder / name, corpus.with_splits(**{k: v[:32] for k, v in corpus.splits.items()}))
    monkeypatch.setenv("NERSHIFT_DATA", str(folder))
    jobs.corpus.cache_clear()
    return folder


def _cell(seed: int = 1, method: str = "finetune") -> Cell:
    return Cell("t", method, "wikigold", ("wnut2017",), seed, SMALL, joint=False)


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_run_goes_on(corpora: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    results = ResultStore(tmp_path, work)
    made: list[Workers] = []

    def pool(count: int | None, work: Path) -> Workers:
        made.append(Workers(count or 1, work))
        return made[0]

    killed: list[int] = []

    def kill_one() -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until and not killed:
            if list(work.glob("pretrained-*/state/*.checkpoint.safetensors")):
                worker = made[0].workers[min(made[0].busy)]
                os.kill(worker.process.pid, signal.SIGKILL)
                killed.append(worker.process.pid)
            time.sleep(0.02)

    watcher = threading.Thread(target=kill_one)
    watcher.start()
    cells = [_cell(1), _cell(2)]
    outcome = run_grid(cells, results, workers=2, quiet=True, pool=pool)
    watcher.join()
    assert killed
    assert (outcome.done, outcome.failed, outcome.smaller) == (2, [], [])
    for cell in cells:
        run_pretraining(cell, tmp_path / "plain")
        run_cell(cell, tmp_path / "plain")
        ours, plain = results.get(cell), store(tmp_path / "plain").get(cell)
        assert ours is not None
        assert plain is not None
        assert ours.metrics["test"] == plain.metrics["test"]
        assert ours.origin["at_once"] == 2


@pytest.mark.slow
def test_where_forked_workers_cannot_use_the_gpu_others_are_started(
    corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell("t", "target_only", "wikigold", (), 1, {k: v for k, v in SMALL.items() if k != "pretrain"})
    with Workers(1, tmp_path / "work") as pool:
        job = Job(cell.key, cell)
        pool.start(0, job)
        real = pool.workers[0].line
        answers = iter([_NO_FORK])
        monkeypatch.setattr(
            pool.workers[0],
            "line",
            SimpleNamespace(poll=real.poll, recv=lambda: next(answers), close=real.close, fileno=real.fileno),
        )
        ended: list[tuple[Job, Failure | None]] = []
        until = time.monotonic() + 60
        while not ended and time.monotonic() < until:
            ended = pool.poll()
        assert ended == [(job, None)]
        assert not pool.forks
    assert cell in store(tmp_path / "work")


def test_what_a_run_with_halved_batches_leaves(corpora: Path, tmp_path: Path) -> None:
    """As many updates as the whole batches make, folders tidied up, and a result that says so."""
    cell, work = _cell(), tmp_path / "work"
    (work / f"cell-{cell.key}").mkdir(parents=True)  # what a run that failed at once leaves
    (work / f"pretrained-{cell.pretraining}").mkdir()
    assert run_job(Job("p", cell, pretrain=True, halved=1), work, {}) is None
    assert run_job(Job("c", cell, halved=1), work, ORIGIN) is None
    found = store(work).get(cell)
    assert found is not None
    assert found.metrics["phases"]["train"]["steps"] == 2 * 32 // 8
    assert [text.split(":")[0] for text in found.metrics["smaller"]] == [
        "pre-training out of memory",
        "training out of memory",
    ]
    assert found.metrics["pretrain_seconds"] > 0
    assert sorted(p.name for p in work.iterdir()) == ["finished", f"pretrained-{cell.pretraining}"]


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), True),
        (RuntimeError("shapes do not fit"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_running_out_of_memory_is_told_from_other_failures(
    error: Exception, memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **settings: Any) -> None:
        raise error

    monkeypatch.setattr(jobs, "run_cell", fail)
    failure = run_job(Job("c", _cell()), tmp_path, {})
    assert failure is not None
    assert failure.memory is out_of_memory(error) is memory
    assert failure.summary.startswith(type(error).__name__)
    assert "Traceback" in failure.error


@pytest.mark.slow
def test_a_grid_stopped_by_its_clock_leaves_checkpoints(corpora: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    settings = {**SMALL, "pretrain": {"epochs": 100_000, "checkpoint_seconds": 1e9}}
    cell = Cell(**{**vars(_cell()), "config": settings})
    outcome = run_grid([cell], ResultStore(tmp_path, work), workers=1, minutes=0.25, quiet=True)
    assert (outcome.done, outcome.left) == (0, 2)
    assert list(work.glob("pretrained-*/state/*.checkpoint.safetensors"))


@pytest.mark.slow
def test_a_job_that_hangs_is_ended_with_its_process(corpora: Path, tmp_path: Path) -> None:
    settings = {**SMALL, "train": {"epochs": 1_000_000}}
    cells = [Cell("t", "target_only", "wikigold", (), 1, settings)]
    made: list[Workers] = []

    def pool(count: int | None, work: Path) -> Workers:
        made.append(Workers(count or 1, work))
        return made[0]

    limits: dict[str, Any] = {"workers": 1, "job_minutes": 0.1, "quiet": True, "pool": pool}
    outcome = run_grid(cells, ResultStore(tmp_path, tmp_path / "work"), **limits)
    assert "ended after 0.1 minutes" in outcome.failed[0]
    assert list((tmp_path / "work" / "failed").glob("*.json"))
    assert not made[0].workers


def test_a_worker_whose_grid_was_killed_ends_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Line:
        asked = 0

        def recv(self) -> Job:
            self.asked += 1
            return Job("key", _cell())

        def send(self, answer: object) -> None:
            raise BrokenPipeError

    ran = list[Job]()
    monkeypatch.setattr(workers, "run_job", lambda job, *_: ran.append(job))
    monkeypatch.setattr(workers.signal, "signal", lambda *_: None)
    line = Line()
    workers._work(line, False, torch.get_num_threads(), dict(os.environ), {}, tmp_path)
    assert line.asked == len(ran) == 1


@pytest.mark.parametrize(("pages", "asked", "expected"), [(100, None, 25), (1024, None, 64), (100, 4, 4), (2, 8, 1)])
def test_no_more_workers_than_fit_main_memory(
    pages: int, asked: int | None, expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sysconf", lambda name: pages if name == "SC_AVPHYS_PAGES" else 2**30)
    monkeypatch.setattr(pool, "MEMORY", tmp_path / "meminfo")
    assert workers_that_fit(asked, 4.0) == expected
    pool.MEMORY.write_text(f"MemFree: 1 kB\nMemAvailable:   {pages * 2**20} kB\n")  # free once caches are given up
    monkeypatch.setattr(os, "sysconf", lambda name: 1)
    assert workers_that_fit(asked, 4.0) == expected
