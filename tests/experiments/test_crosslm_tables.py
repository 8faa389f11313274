from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_results import finish, store

from experiments.cells import Cell
from experiments.crosslm.tables import TABLES, UNSUPERVISED
from experiments.jobs import raw_text, run_cell
from experiments.papers import get_table
from experiments.show import collect, markdown
from nershift.config import build, merge
from nershift.data.builtin import builtin_corpus
from nershift.data.catalog import catalog
from nershift.data.corpus import Corpus
from nershift.data.formats import read_corpus, write_corpus, write_sentences
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.methods import METHODS
from nershift.methods.base import Setup
from nershift.run import resolve

SMALL = {
    "device": "cpu",
    "encoder": {"words": {"size": 8, "vectors": ""}, "recurrent": {"size": 8}},
    "train": {"updates": 3},
    "pretrain": {"updates": 3},
}


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Generated sentences under the catalog's names, with the catalog's types."""
    folder = tmp_path / "data"
    news, market = builtin_corpus("news"), builtin_corpus("market")
    types = {"person": "PER", "place": "LOC"}
    for name, corpus, splits in (
        ("conll2003_en", news, ("train", "dev")),
        ("cbs_scitech", market, ("test",)),
        ("bionlp13cg", market, ("train", "dev", "test")),
    ):
        mapped = corpus.mapped({t: types.get(t, "O") for t in corpus.types})
        kept = {split: mapped.splits[split][:40] for split in splits}
        write_corpus(folder / name, type(corpus)(name, kept))
    for name, corpus in (("raw_reuters21578", news), ("raw_abc_science", market)):
        (folder / name).mkdir()
        write_sentences(folder / name / "raw.txt.gz", [s.with_spans(()) for s in corpus.train[:50]])
    monkeypatch.setenv("NERSHIFT_DATA", str(folder))
    raw_text.cache_clear()
    return folder


def test_no_cell_of_the_unsupervised_tables_has_text_of_its_target() -> None:
    for name in ("crosslm-table4", "crosslm-table5", "crosslm-fig8"):
        for cell in get_table(name).cells((1,)):
            assert cell.sources == ("conll2003_en",)
            assert {text.partition("@")[0] for _, text in cell.raw} <= {"raw_reuters21578", "raw_abc_science"}
            assert not catalog()[cell.target].counts.keys() & {"train", "dev"}


REAL = Path(os.environ.get("NERSHIFT_DATA") or Path(__file__).parents[2].parent / "shared" / "data")


@pytest.mark.skipif(not (REAL / "cbs_scitech").is_dir(), reason="no corpora here")
@pytest.mark.parametrize("row", list(UNSUPERVISED))
def test_nothing_of_cbs_is_seen_in_training(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With CBS or with a made-up test split in its place, a method reads, knows and selects on the very same."""
    monkeypatch.setenv("NERSHIFT_DATA", str(REAL))
    (cell,) = (c for c in get_table("crosslm-table4").cells((1,)) if (c.name, c.target) == (row, "cbs_scitech"))
    source, cbs = read_corpus("conll2003_en"), read_corpus("cbs_scitech")
    source = source.with_splits(train=source.train[:60], dev=source.dev[:20], test=())
    raw = {domain: load_raw(text)[:80] for domain, text in cell.raw}
    secret = Corpus("cbs_scitech", {"test": (Sentence.of(["Qyxxy", "Æ"], [(0, 1, "PER")]),)})
    found = []
    for target in (cbs, secret):
        config = resolve(cell.method, merge(cell.with_config(SMALL).config, {"device": "cpu"}))
        cls = METHODS[cell.method]
        method = cls(Setup(config, build(cls.Options, config.options), target, (), (source,), raw))
        method.check()
        stage = method.pretrain() or method.train(None)
        assert stage is not None
        read = {s.tokens for f in stage.samplers.values() for k in range(f.per_epoch) for s in f.batch(k).sentences}
        encoder = stage.model.encoder
        assert isinstance(encoder, RecurrentEncoder)
        gold = [s for *_, split in getattr(stage, "selection", stage.dev) for s in split]
        found.append((read, encoder.words.vocabulary.words, encoder.characters.words, gold))
    assert found[0] == found[1]
    read, _, _, gold = found[0]
    assert read
    known = {s.tokens for s in (*source.train, *(s for text in raw.values() for s in text))}
    assert read <= known
    assert all(s in source.dev for s in gold)
    if cell.method in ("crosslm", "dann", "source_only", "selftrain"):
        assert gold


def load_raw(text: str) -> RawText:
    return RawText(REAL / text / "raw.txt.gz")


def test_raw_text_by_name_split_and_amount(corpora: Path) -> None:
    whole = raw_text("raw_abc_science")
    assert isinstance(whole, RawText)
    assert len(whole) == 50
    assert list(raw_text("raw_abc_science@7")) == whole[:7]
    split = raw_text("bionlp13cg:train@5")
    assert len(split) == 5
    assert not any(s.spans for s in split)


def test_cells_keep_the_keys_they_had_before_there_was_raw_text() -> None:
    plain = Cell("t", "target_only", "re3d", (), 1)
    assert "raw" not in plain.spec()
    assert plain.key == Cell("t", "target_only", "re3d", (), 1, keep_log=True).key
    assert plain.key != Cell("t", "target_only", "re3d", (), 1, raw=(("target", "raw_abc_science"),)).key


@pytest.mark.parametrize(("table", "row"), [("crosslm-table4", "crosslm"), ("crosslm-fig6", "crosslm")])
def test_a_cell_runs_from_catalog_to_result(table: str, row: str, corpora: Path, tmp_path: Path) -> None:
    cell = next(c for c in get_table(table).cells((1,)) if c.name == row).with_config(SMALL)
    run_cell(cell, tmp_path / "work")
    found = store(tmp_path / "work").get(cell)
    assert found is not None
    assert {"f1", "by_type"} <= found.metrics["test_tokens"].keys()
    assert ("log" in found.metrics) == (table == "crosslm-fig6")


def test_one_run_fills_several_columns(tmp_path: Path) -> None:
    table = get_table("crosslm-table4-parts")
    types = {"PER": {"f1": 0.5, "correct": 7}}
    metrics: dict[str, Any] = {
        "test": {"f1": 0.7, "precision": 0.6, "recall": 0.8, "by_type": types},
        "test_tokens": {"f1": 0.75, "by_type": types},
    }
    for cell in table.cells((1,)):
        finish(tmp_path, cell, metrics, np.ones((4, 3)))
    text = markdown(table, store(tmp_path), (1,))
    assert "| cbs_scitech P | cbs_scitech R | cbs_scitech F1 | cbs_scitech token F1 |" in text
    assert "| crosslm | 60.00 (1 run) | 80.00 (1 run) | 70.00 (1 run) | 75.00 (1 run) |" in text
    assert "*73.59 (-3.59)*" in text
    assert collect(get_table("crosslm-table4"), store(tmp_path), (1,))["crosslm", "cbs_scitech"].scores == (70.0,)
    assert collect(get_table("crosslm-table5"), store(tmp_path), (1,))["crosslm", "PER"].scores == pytest.approx((7.0,))
    assert collect(get_table("crosslm-table5"), store(tmp_path), (1,))["crosslm", "MISC"].scores == (0.0,)


def test_curves_are_read_from_the_log(tmp_path: Path) -> None:
    table = get_table("crosslm-fig3")
    log = [{"phase": "pretrain", "epoch": 1, "dev_f1": None}]
    log += [{"phase": "train", "epoch": e, "dev_f1": e / 100} for e in range(1, 13)]
    for cell in table.cells((1,)):
        finish(tmp_path, cell, {"test": {"f1": 0.5}, "log": log}, np.ones((4, 3)))
    shown = collect(table, store(tmp_path), (1,))
    assert [shown["crosslm", part].scores[0] for part in table.parts] == [1, 2, 4, 8, 12, 12]


def test_published_numbers_have_a_place() -> None:
    for table in TABLES:
        rows, columns = table.layout()
        assert {r for r, _ in table.published} <= set(rows)
        assert {c for _, c in table.published} <= set(columns)
    assert get_table("crosslm-table4").published["crosslm", "cbs_scitech"] == 73.59
    assert next(iter(UNSUPERVISED)) == "source_only"
