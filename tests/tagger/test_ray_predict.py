from __future__ import annotations

import json
from pathlib import Path

import pytest

from nershift.data.builtin import builtin_corpus
from nershift.errors import ConfigError, DataError
from nershift.run import transfer
from nershift.tagger.tagger import Tagger

pytest.importorskip("ray")
SMALL = {
    "encoder": {"words": {"size": 16}, "chars": {"size": 4, "filters": 8}, "recurrent": {"size": 16}},
    "train": {"epochs": 12, "lr": 1e-2, "batch_size": 8},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tagger") / "run"
    full = builtin_corpus("court")
    corpus = full.with_splits(**{name: split[:90] for name, split in full.splits.items()})
    transfer("target_only", corpus, out=folder, config=SMALL, quiet=True, report=False)
    return folder


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [" ".join(s.tokens) for s in builtin_corpus("court").splits["test"]][:40]


@pytest.fixture(autouse=True)
def source_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "src"))


def _same(found: list[dict[str, object]], expected: list[dict[str, object]]) -> None:
    assert [e.pop("score") for e in found] == pytest.approx([e.pop("score") for e in expected], abs=1e-4)
    assert found == expected


@pytest.mark.slow
def test_folders_are_tagged_as_predict_tags_texts(model: Path, texts: list[str], tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    from nershift.tagger.ray_cluster import connect
    from nershift.tagger.ray_predict import predict_folder

    lines, tables = tmp_path / "lines", tmp_path / "tables"
    for folder in (lines, tables):
        folder.mkdir()
    parts = {"b": texts[:25], "a": texts[25:]}
    for name, some in parts.items():
        rows = [{"id": f"{name}{i}", "text": text, "größe": [i, None]} for i, text in enumerate(some)]
        body = "\n\n".join(json.dumps(row) for row in rows)
        (lines / f"{name}.jsonl").write_text(body + "\r\n", encoding="utf-8")
        parquet.write_table(pa.Table.from_pylist(rows), tables / f"{name}.parquet", row_group_size=7)
    (lines / "notes.txt").write_text("not ours")
    _, leave = connect("local", 3)  # one for all three calls: each would start its own
    assert predict_folder(model, lines, tmp_path / "out", workers=2)[0] == 40
    assert predict_folder(model, tables, tmp_path / "out", workers=2)[0] == 40
    tagger, entities = Tagger.load(model), 0
    for name, some in parts.items():
        found = [json.loads(x) for x in (tmp_path / "out" / f"{name}.jsonl").read_text("utf-8").splitlines()]
        table = parquet.read_table(tmp_path / "out" / f"{name}.parquet").to_pylist()
        for rows in (found, table):
            assert [r["id"] for r in rows] == [f"{name}{i}" for i in range(len(some))]
            assert [r["text"] for r in rows] == some
            assert rows[3]["größe"] == [3, None]
            for row, expected in zip(rows, tagger.tag_texts(some), strict=True):
                entities += len(expected)
                _same(row["entities"], [e.to_dict() for e in expected])
    assert entities > 20
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "a.jsonl", "a.parquet", "b.jsonl", "b.parquet",
    ]  # fmt: skip
    (lines / "b.jsonl").write_text('{"text": "fine"}\n\n{"text": 5}\n')
    with pytest.raises(DataError, match=r"b\.jsonl:3: a record without a text"):
        predict_folder(model, lines, tmp_path / "again", workers=1)
    leave()


def test_wrong_folders_are_refused_before_anything_starts(model: Path, tmp_path: Path) -> None:
    from nershift.cli.predict import predict
    from nershift.tagger.ray_predict import predict_folder

    with pytest.raises(DataError, match="holds nothing to tag"):
        predict_folder(model, tmp_path, tmp_path / "out")
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(DataError, match="would be overwritten"):
        predict_folder(model, tmp_path, tmp_path)
    (tmp_path / "a.parquet").touch()
    with pytest.raises(DataError, match="both kinds"):
        predict_folder(model, tmp_path, tmp_path / "out")
    with pytest.raises(ConfigError, match="no folder to write to"):
        predict([model], str(tmp_path), ray="local")
    with pytest.raises(ConfigError, match="--why"):
        predict([model], str(tmp_path), tmp_path / "out", why=True, ray="local")


def test_without_ray_the_extra_is_named(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from nershift.errors import MissingExtraError
    from nershift.tagger.ray_predict import predict_folder

    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n')
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"nershift\[ray\]"):
        predict_folder(model, tmp_path, tmp_path / "out")
