from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_results import finish, store

from experiments.cells import Cell
from experiments.metaner.tables import EIGHT, SOURCES, TARGETS, sources_of
from experiments.papers import TABLES, get_table
from experiments.plan import plan
from experiments.pool import run_grid
from experiments.show import collect, markdown
from experiments.store import ResultStore
from experiments.table import Table, entry
from nershift.data.builtin import builtin_corpus
from nershift.data.formats import write_corpus
from nershift.errors import ConfigError

SMALL = {
    "encoder": {"words": {"size": 8}, "chars": {"size": 4, "filters": 8}, "recurrent": {"size": 8}},
    "train": {"epochs": 1},
    "pretrain": {"epochs": 1},
}


def _cell(method: str, seed: int = 1, **more: object) -> Cell:
    sources = () if method == "target_only" else ("wikigold", "wnut2017")
    return Cell("toy", method, "sec_filings", sources, seed, SMALL, **more)  # type: ignore[arg-type]


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Generated sentences under names that the catalog knows."""
    folder = tmp_path / "data"
    for name, domain in (("wikigold", "court"), ("wnut2017", "chat"), ("sec_filings", "market")):
        corpus = builtin_corpus(domain)
        write_corpus(folder / name, corpus.with_splits(**{k: v[:40] for k, v in corpus.splits.items()}))
    monkeypatch.setenv("NERSHIFT_DATA", str(folder))
    return folder


def test_a_key_says_what_decides_the_result_and_nothing_else() -> None:
    one = _cell("finetune")
    assert one.key == Cell(**{**vars(one), "table": "other", "row": "shown so"}).key
    assert one.key != _cell("finetune", seed=2).key
    assert one.key != one.with_config({"train": {"epochs": 2}}).key


def test_pretraining_is_shared_by_targets_and_amounts_of_labels() -> None:
    base = _cell("metaner", joint=False)
    assert base.pretraining is not None
    assert base.pretraining == Cell(**{**vars(base), "target": "re3d", "ratio": 0.1}).pretraining
    assert base.pretraining == base.with_config({"train": {"epochs": 9}}).pretraining
    assert base.pretraining == Cell(**{**vars(base), "method": "metaner-zero"}).pretraining
    assert base.pretraining != base.with_config({"options": {"adversary_weight": 0.1}}).pretraining
    assert _cell("multitask").pretraining is None


def test_a_grid_runs_resumes_and_survives_a_broken_cell(corpora: Path, tmp_path: Path) -> None:
    results = ResultStore(tmp_path, tmp_path / "work")
    cells = [_cell("target_only"), _cell("finetune", joint=False), _cell("source_only", joint=False)]
    assert [j.pretrain for j in plan(cells, results)] == [True, False, False, False]
    outcome = run_grid(cells, results, workers=1, quiet=True)
    # source_only starts from finetune's pre-training, whose sources do not share one label space.
    assert outcome.done == 2
    assert len(outcome.failed) == 1
    assert "source_only" in outcome.failed[0]
    record = json.loads(next((tmp_path / "work" / "failed").iterdir()).read_text())
    assert "SetupError" in record["error"]
    assert not list((tmp_path / "work" / "finished").iterdir())
    again = ResultStore(tmp_path, tmp_path / "work")
    assert plan(cells[:2], again) == []
    before = (tmp_path / "toy" / "results.jsonl.gz").stat().st_mtime_ns
    assert run_grid(cells[:2], again, workers=1, quiet=True).done == 2
    assert (tmp_path / "toy" / "results.jsonl.gz").stat().st_mtime_ns == before


def test_tables_show_runs_beside_the_paper_and_say_what_was_not_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    grid = [entry(method, "re3d") for method in ("metaner", "finetune", "dann")]
    table = Table("t", "A table", grid, published={("metaner", "re3d"): 68.52}, average=True, ours="metaner")
    cells = [replace(cell, seed=seed) for cell in grid[:2] for seed in (1, 2, 3)]
    for i, cell in enumerate(cells):
        right = rng.integers(0, 2, 200) if cell.method == "metaner" else np.zeros(200, int)
        counts = np.stack([right, np.ones(200, int), np.ones(200, int)], 1)
        finish(tmp_path, cell, {"test": {"f1": 0.6 + 0.01 * i}}, counts)
    text = markdown(table, store(tmp_path))
    assert "| metaner | 61.00 ± 1.00 | 61.00 ± 1.00 |" in text
    assert "*68.52 (-7.52)*" in text
    assert "| dann | not run | not run |" in text
    assert "metaner − finetune: -3.00" in text
    assert "on: none" in text  # the counts are not those of the scores, so there is nothing to test
    assert collect(table, store(tmp_path))["dann", "re3d"].summary is None


def test_every_listed_table_has_distinct_cells_and_known_methods() -> None:
    from nershift.data.catalog import catalog
    from nershift.methods import METHODS
    from nershift.run import resolve

    resolved = set[str]()
    known = set(catalog())
    for table in TABLES.values():
        cells = table.cells((1,))
        shared = 2 if table.name == "crosslm-fig8" else 0  # its three lines meet in one run
        assert len({c.key for c in cells}) + shared == len({(*table.place(c),) for c in cells})
        for cell in cells:
            assert cell.method in METHODS
            assert {cell.target, *cell.sources} <= known
            # Settings may be chosen on the dev split of a source, and a target's own train split may be a source
            # as long as nothing that is scored is; nothing else is scored on what it learned from.
            assert cell.target not in cell.sources or table.place(cell)[1] == "dev" or cell.disjoint
            if (settings := f"{cell.method} {cell.config}") not in resolved:
                resolve(cell.method, cell.settings)
                resolved.add(settings)
    with pytest.raises(ConfigError, match="did you mean 'metaner-table3'"):
        get_table("metaner-tabel3")


def test_mit_movie_does_not_learn_from_its_sister() -> None:
    assert "mit_movie_trivia" in sources_of("re3d")
    assert "mit_movie_trivia" not in sources_of("mit_movie")
    assert not set(SOURCES) & set(TARGETS)
    assert len(EIGHT) == 8


def test_the_command_lists_and_shows(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from experiments.__main__ import app

    runner = CliRunner()
    listed = runner.invoke(app, ["list"])
    assert listed.exit_code == 0
    assert "metaner-table3" in listed.output
    shown = runner.invoke(app, ["show", "baselines-in-domain", "--markdown", "--results", str(tmp_path)])
    assert shown.exit_code == 0
    assert "| target_only | not run | not run | not run | not run |" in shown.output
