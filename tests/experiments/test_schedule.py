from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import pytest
from made_results import store

from experiments.cells import Cell
from experiments.costs import Cost, Rates, estimate, gpu_memory, total
from experiments.jobs import Failure, smaller
from experiments.papers import TABLES
from experiments.plan import Job, model_folder, plan
from experiments.pool import HALVINGS, Outcome, run_grid
from experiments.store import Result, ResultStore
from nershift.run import resolve

OOM = Failure("CUDA out of memory", "OutOfMemoryError: CUDA out of memory", memory=True)
CRASH = Failure("boom", "RuntimeError: boom")


def _grid(table: str, seeds: Sequence[int]) -> list[Cell]:
    sources = ("conll2003_en", "wnut2017")
    return [
        Cell(table, method, target, sources, s, {"train": {"epochs": epochs}}, joint=method != "finetune")
        for method, epochs in (("multitask", 3), ("finetune", 20), ("aggregate", 1))
        for target in ("wikigold", "mit_movie")
        for s in seeds
    ]


class Scripted:
    """A pool in which nothing runs: each start of a job ends as its script says, and is noted."""

    def __init__(self, script: dict[str, list[Failure | None]], count: int) -> None:
        self.script, self.count, self.busy = script, count, dict[int, Job]()
        self.log: list[tuple[str, int, int]] = []  # name, halved, how many others ran
        self.trims = 0

    def __enter__(self) -> Scripted:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def idle(self) -> list[int]:
        return [i for i in range(self.count) if i not in self.busy]

    def start(self, number: int, job: Job) -> None:
        self.log.append((job.name, job.halved, len(self.busy)))
        self.busy[number] = job

    def poll(self, seconds: float = 1.0) -> list[tuple[Job, Failure | None]]:
        job = self.busy.pop(min(self.busy))
        return [(job, (self.script.get(job.name) or [None]).pop(0))]

    def end(self, number: int) -> None:
        del self.busy[number]

    def trim(self) -> None:
        self.trims += 1


class Hanging(Scripted):
    """Jobs of one name never end."""

    hangs = ""

    def poll(self, seconds: float = 1.0) -> list[tuple[Job, Failure | None]]:
        able = [number for number, job in self.busy.items() if job.cell.target != self.hangs]
        return [(self.busy.pop(min(able)), None)] if able else []


def _run(cells: Sequence[Cell], folder: Path, pool: Scripted, gpu_gib: float | None = None) -> Outcome:
    return run_grid(cells, store(folder), workers=pool.count, gpu_gib=gpu_gib, quiet=True, pool=lambda *_: pool)


def test_tables_come_as_named_then_seeds_then_what_others_wait_for_then_the_longest(tmp_path: Path) -> None:
    cells = _grid("second", (1, 2)) + _grid("first", (1,))
    cells = [Cell(**{**vars(c), "shots": 50 if c.table == "first" else None}) for c in cells]
    jobs = plan(cells, store(tmp_path))
    assert [j.cell.table for j in jobs] == sorted((j.cell.table for j in jobs), reverse=True)
    for table in ("second", "first"):
        part = [j for j in jobs if j.cell.table == table]
        assert [j.cell.seed for j in part] == sorted(j.cell.seed for j in part)
        for seed in (1, 2):
            one = [j for j in part if j.cell.seed == seed]
            kinds = [j.pretrain for j in one]
            assert kinds == sorted(kinds, reverse=True)
            costs = [j.seconds for j in one if not j.pretrain]
            assert costs == sorted(costs, reverse=True)
    # The first table's pre-training serves the second table too, and comes once for each seed.
    assert sum(j.pretrain for j in jobs) == 2
    assert all({k.key for k in jobs}.issuperset(j.needs) for j in jobs)
    seeds = [j.cell.seed for j in plan(cells, store(tmp_path), by="seed")]
    assert seeds == sorted(seeds)


def test_teachers_run_before_their_student_and_keep_their_models(tmp_path: Path) -> None:
    taught = [replace(c, seed=seed) for seed in (1, 2) for c in _grid("t", (1,))[:1]]
    student = Cell("t", "teacher_student", "wikigold", (), 1, raw=(("target", "raw_wiki_en"),), teachers=tuple(taught))
    here = store(tmp_path)
    jobs = {job.key: job for job in plan([student], here)}
    assert {t.key for t in taught} <= set(jobs[student.key].needs)
    assert [jobs[t.key].keep for t in taught] == [True, True]
    assert not jobs[student.key].keep
    pool = Scripted({}, count=1)
    assert _run([student], tmp_path, pool).done == 1
    assert [job for job, *_ in pool.log][-1] == "wikigold/teacher_student/s1"
    model_folder(here.work, taught[0]).mkdir(parents=True)  # a model that is there is not made again
    again = {job.key: job for job in plan([student], here)}
    assert taught[0].key not in again
    assert taught[0].key not in again[student.key].needs
    assert taught[1].key in again[student.key].needs


def test_teachers_are_part_of_what_decides_a_result() -> None:
    plain = Cell("t", "teacher_student", "wikigold", (), 1)
    one, other = (replace(plain, teachers=(replace(plain, method="target_only", seed=s),)) for s in (1, 2))
    assert len({plain.key, one.key, other.key}) == 3
    assert Cell.of(one.spec(), teachers=one.teachers).key == one.key


def test_a_job_out_of_memory_waits_then_runs_alone_then_with_halved_batches(tmp_path: Path) -> None:
    cells = _grid("t", (1,))
    name = "pre-training for wikigold/finetune/s1"
    pool = Scripted({name: [OOM, OOM, OOM, OOM, None]}, count=3)
    outcome = _run(cells, tmp_path, pool)
    assert outcome.done == len(cells)
    assert not outcome.failed
    assert outcome.smaller == [f"{name}: batches divided by 4"]
    tries = [(halved, beside) for job, halved, beside in pool.log if job == name]
    # As planned, beside two others at the end, alone, halved.
    assert tries == [(0, 0), (0, 2), (0, 0), (1, 0), (2, 0)]
    last = pool.log.index((name, 2, 0))
    after = [job for job, *_ in pool.log[last + 1 :]]
    assert sorted(after) == ["mit_movie/finetune/s1", "wikigold/finetune/s1"]  # what waited for it
    assert pool.log[last + 2][2] == 1  # and they run beside each other again
    assert pool.trims == 3


@pytest.mark.parametrize(("gib", "beside"), [(None, 3), (11.0, 1), (1.0, 0)])
def test_as_many_jobs_run_at_once_as_fit_the_gpu(gib: float | None, beside: int, tmp_path: Path) -> None:
    cells = _grid("t", (1,))  # about 5 GiB each
    pool = Scripted({}, count=4)
    assert _run(cells, tmp_path, pool, gib).done == len(cells)
    assert max(others for *_, others in pool.log) == beside


def test_a_small_job_goes_first_where_a_large_one_does_not_fit(tmp_path: Path) -> None:
    encoder = {"kind": "transformer", "transformer": {"name": "some"}}
    over = {"encoder": encoder, "train": {"batch_size": 64}}
    large = [Cell("t", "target_only", "mit_movie", (), s, over) for s in (1, 2)]
    small = [Cell("t", "target_only", "wikigold", (), s, {}) for s in (1, 2)]
    pool = Scripted({}, count=4)
    _run(large + small, tmp_path, pool, gpu_memory(large[0]) + gpu_memory(small[0]))
    assert pool.log[:2] == [("mit_movie/target_only/s1", 0, 0), ("wikigold/target_only/s1", 0, 1)]
    assert max(others for *_, others in pool.log) == 1


def test_memory_grows_with_batches_and_encoders() -> None:
    def cell(batch: int, name: str) -> Cell:
        config = {"encoder": {"kind": "transformer", "transformer": {"name": name}}}
        stages = {"train": {"batch_size": 8}, "pretrain": {"batch_size": batch}}
        return Cell("t", "finetune", "wikigold", ("wnut2017",), 1, config | stages, joint=False)

    one = cell(64, "a")
    assert gpu_memory(one) < gpu_memory(one, pretrain=True) < gpu_memory(cell(64, "a+b"), pretrain=True)
    assert gpu_memory(one, pretrain=True) > gpu_memory(cell(32, "a"), pretrain=True)
    sizes = {c.name: gpu_memory(c, pretrain=True) for c in TABLES["laner-fig3"].cells([1])}
    assert sizes["d2 = 10"] < sizes["d2 = 100"] < sizes["d2 = 1000"]


def test_what_never_works_is_recorded_and_takes_its_dependents_with_it(tmp_path: Path) -> None:
    cells = _grid("t", (1,))
    memory, crash = "pre-training for wikigold/finetune/s1", "mit_movie/aggregate/s1"
    pool = Scripted({memory: [OOM] * 9, crash: [CRASH] * 9}, count=2)
    outcome = _run(cells, tmp_path, pool)
    assert outcome.done == 3
    assert sorted(outcome.failed) == [f"{crash}: {CRASH.summary}", f"{memory}: {OOM.summary}"]
    assert sum(job == memory for job, *_ in pool.log) == 3 + HALVINGS
    assert sum(job == crash for job, *_ in pool.log) == 2
    told = [json.loads(p.read_text()) for p in (tmp_path / "failed").iterdir()]
    assert {t.get("batches_divided_by") for t in told} == {None, 2**HALVINGS}


def test_halved_batches_make_the_same_number_of_updates() -> None:
    cell = Cell("t", "finetune", "wikigold", ("conll2003_en",), 1, {"train": {"epochs": 20, "patience": 5}})
    before = resolve("finetune", cell.settings)
    after = resolve("finetune", smaller(cell, 2))
    for stage in ("train", "pretrain"):
        old, new = getattr(before, stage), getattr(after, stage)
        assert new.batch_size * new.accumulate == old.batch_size * old.accumulate
        assert new.batch_size == old.batch_size // 4
        # Steps an epoch grow with 1 / batch_size.
        assert new.epochs / new.batch_size == pytest.approx(old.epochs / old.batch_size, rel=0.1)
    assert after.train.patience == 2
    assert smaller(cell, 0) == cell.settings


def test_estimates_bound_the_steps_of_finished_runs(committed: ResultStore) -> None:
    results = list(committed)
    assert results
    exact = 0
    for result in results:
        cell = Cell.of(result.spec, joint=result.metrics["data"]["start"] is None)
        took = sum(stage.get("steps", 0) for stage in result.metrics["phases"].values())
        steps = estimate(cell).steps
        # A length that follows the amount of data counts the parts of long sentences too, which an estimate cannot see.
        by_data = cell.config.get("preset") == "default" and not cell.config.get("train")
        assert took <= steps * (1.02 if by_data else 1), result.name
        exact += took == steps
    assert exact > len(results) / 4  # those that no early stopping ended


def test_finished_runs_correct_the_estimates() -> None:
    cell = Cell("t", "target_only", "wikigold", (), 1, {"train": {"epochs": 5}})
    plain = Rates()(cell)
    assert plain.seconds == estimate(cell).seconds > 0
    metrics = {"device": "cuda:0", "seconds": 8 * 3 * plain.seconds, "data": {"start": None}}
    rates = Rates.learn([Result(cell.spec(), metrics, "", {"at_once": 8})], "cuda")
    assert rates(cell).seconds == pytest.approx(3 * plain.seconds)
    like = Cell("t", "aggregate", "wikigold", ("wnut2017",), 1)
    assert rates(like).seconds == pytest.approx(3 * estimate(like).seconds)  # the nearest that is known
    on_cpu = Result(cell.spec(), {**metrics, "device": "cpu"}, "", {"at_once": 2})
    assert Rates.learn([on_cpu], "cuda").factors == {}
    assert Rates.learn([on_cpu], "cpu")(cell).seconds == pytest.approx(12 * plain.seconds)
    assert Rates.learn([], "cpu")(cell).seconds > plain.seconds


def test_a_shared_pretraining_is_paid_for_once() -> None:
    one = Cell("t", "finetune", "wikigold", ("conll2003_en",), 1, joint=False)
    two = Cell(**{**vars(one), "target": "mit_movie"})
    rates = Rates()
    shared = rates(one, pretrain=True)
    assert total([one, two, one], rates) == rates(one) + rates(two) + shared
    joint = Cell(**{**vars(one), "joint": True})
    assert estimate(joint).steps == (rates(one) + shared).steps


@pytest.mark.parametrize("name", list(TABLES))
def test_every_cell_of_every_table_has_an_estimate(name: str) -> None:
    for cell in TABLES[name].cells((1,)):
        cost = estimate(cell)
        assert isinstance(cost, Cost)
        assert 0 < cost.seconds < 7200
        if cell.pretraining:
            assert estimate(cell, pretrain=True).steps > 0


def test_every_committed_result_is_shown_in_some_table(committed: ResultStore) -> None:
    shown = {c.key for t in TABLES.values() for c in t.cells(range(1, 11))}
    assert {result.key for result in committed} <= shown


def test_a_job_that_hangs_is_ended_and_the_rest_goes_on(tmp_path: Path) -> None:
    cells = [c for c in _grid("t", (1,)) if c.method == "aggregate"]
    pool = Hanging({}, 2)
    pool.hangs = "wikigold"
    limits = {"workers": 2, "job_minutes": 0.001, "quiet": True}
    outcome = run_grid(cells, store(tmp_path), **limits, pool=lambda *_: pool)  # type: ignore[arg-type]
    assert outcome.done == 1
    assert len(outcome.failed) == 1
    assert "wikigold" in outcome.failed[0]
    assert "ended after 0.001 minutes" in outcome.failed[0]
    assert sum("wikigold" in name for name, *_ in pool.log) == 2  # tried twice, like any other
    assert not pool.busy


def test_every_row_of_every_table_can_be_planned() -> None:
    """The memory that a row needs is asked before it runs: a row whose settings it cannot read never runs."""
    rows = {(name, cell.name): cell for name, table in TABLES.items() for cell in table.cells([1])}
    assert all(gpu_memory(cell) > 0 for cell in rows.values())
