import io
import json
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from nershift.cli.data import register, render
from nershift.data.catalog import differences
from nershift.data.checks import check, check_splits
from nershift.data.formats import read_corpus, read_sentences
from nershift.data.problems import Problems
from nershift.data.spans import Sentence
from nershift.errors import ConfigError, DataError

TRAIN = "Rome\tB-LOC\nfell\tO\nlong\tO\nago\tO\n\n" * 2 + "a\tO\nb\tI-LOC\n\n"
TEST = "Rome\tB-LOC\nfell\tO\nlong\tO\nago\tO\n\nAda\tB-PER\n\n" + "x\tO\n" * 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.conll").write_text(TRAIN)
    (tmp_path / "test.conll").write_text(TEST)
    return tmp_path


def test_a_wrong_copy_of_a_known_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NERSHIFT_DATA", str(tmp_path))
    (tmp_path / "wikigold").mkdir()
    (tmp_path / "wikigold" / "test.conll").write_text("Rome\tB-LOC\n")
    report = check("wikigold")
    told = [f for f in report.findings if f.kind == "not as in the catalogue"]
    assert [f.message for f in told] == differences(read_corpus("wikigold")) != []
    assert {f.where for f in told} == {"wikigold"}
    assert not report.ok
    assert check(tmp_path / "wikigold").ok  # a folder is taken for what it is


def test_report(folder: Path) -> None:
    report = check(folder, max_length=20)
    assert report.splits["train"].sentences == 3
    assert report.splits["train"].tokens == 10
    assert report.splits["train"].mentions == {"LOC": 3}
    assert report.splits["test"].longest == 30
    found = {(f.kind, f.where.rpartition("/")[2]): f for f in report.findings}
    assert set(found) == {
        ("malformed tag", "train.conll"),
        ("long sentence", "test"),
        ("shared sentence", "test"),
        ("unseen type", "test"),
    }
    assert found["malformed tag", "train.conll"].places == (f"{folder}/train.conll:12",)
    assert found["shared sentence", "test"].places == (f"{folder}/test.conll:1",)
    assert "PER" in found["unseen type", "test"].message
    assert [(n.kind, n.count) for n in report.notes] == [("duplicate", 1)]
    assert not report.ok
    assert json.loads(json.dumps(report.to_dict()))["ok"] is False


def test_rendering_keeps_file_and_line(folder: Path) -> None:
    console = Console(record=True, width=60, file=io.StringIO())
    console.print(render(check(folder, max_length=20)))
    text = console.export_text().replace("\n", "")
    assert f"{folder}/train.conll:12" in text
    assert "Mentions by type" in text


def test_several_paths_with_the_same_split(folder: Path) -> None:
    report = check([folder / "train.conll", folder / "train.conll"])
    assert len(report.splits) == 2
    assert "shared sentence" in {f.kind for f in report.findings}


def test_overlaps_and_empty_sentences(tmp_path: Path) -> None:
    spans = [[0, 4, "A"], [0, 8, "B"]]
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps({"text": "Rome was", "spans": spans}) + '\n{"text": " "}\n')
    kinds = {f.kind: f for f in check(path).findings}
    assert set(kinds) == {"overlap", "empty sentence"}
    assert kinds["overlap"].places == (f"{path}:1",)


def test_corpus_in_memory() -> None:
    one = Sentence.of(["a", "b"], [(0, 1, "X")])
    splits = {"train": (one, one.with_spans([])), "raw": (Sentence.of(["a", "b"]),)}
    report = check_splits(splits, Problems(repair=True), 250)
    assert report.ok
    assert [n.kind for n in report.notes] == ["duplicate", "contradicting duplicate", "shared sentence"]


def run(*words: str | Path) -> tuple[int, str, BaseException | None]:
    app = typer.Typer()
    register(app)
    result = CliRunner().invoke(app, [str(w) for w in words])
    return result.exit_code, result.output, result.exception


def test_cli_check(folder: Path) -> None:
    code, out, _ = run("check", folder)
    assert code == 0
    assert "malformed tag" in out
    assert run("check", folder, "--strict")[0] == 1
    code, out, _ = run("check", folder, "--json", "--max-length", "20")
    assert code == 0
    assert json.loads(out)["splits"]["train"]["sentences"] == 3
    (folder / "clean.conll").write_text("Rome\tB-LOC\n")
    code, out, _ = run("check", folder / "clean.conll", "--strict")
    assert code == 0
    assert "No findings" in out


def test_cli_convert(folder: Path) -> None:
    code, _, error = run("convert", folder / "train.conll", folder / "out.jsonl")
    assert code == 1
    assert isinstance(error, DataError)
    assert not (folder / "out.jsonl").exists()
    code, out, _ = run("convert", folder / "train.conll", folder / "out.jsonl", "--repair")
    assert code == 0
    assert "train.conll:12: malformed tag" in out
    assert "3 sentences with 3 mentions" in out
    assert run("convert", folder / "out.jsonl", folder / "x.tsv", "--scheme", "bioes")[0] == 0
    assert "S-LOC" in (folder / "x.tsv").read_text()
    assert [s.spans for s in read_sentences(folder / "x.tsv")] == [
        s.spans for s in read_sentences(folder / "out.jsonl")
    ]
    assert isinstance(run("convert", folder / "x.tsv", folder / "y.conll", "--scheme", "BIX")[2], ConfigError)
    assert isinstance(run("convert", folder, folder / "y.conll", "--repair")[2], ConfigError)


def test_cli_convert_a_folder_and_drop_empty_sentences(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "train.jsonl").write_text('{"text": "Rome", "spans": [[0, 4, "LOC"]]}\n{"text": ""}\n')
    assert run("convert", source, tmp_path / "out", "--to", "conll")[0] == 1
    code, out, _ = run("convert", source, tmp_path / "out", "--to", "conll", "--repair")
    assert code == 0
    assert "train.jsonl:2: empty sentence → left out" in out
    assert (tmp_path / "out" / "train.conll").read_text() == "Rome\tB-LOC\n\n"
