"""`nershift curve` and `nershift next` from files to files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from nershift.cli import main
from nershift.data.corpus import Corpus
from nershift.data.formats import read_sentences, write_corpus, write_sentences
from nershift.data.problems import Problems
from nershift.run import transfer

MakeCorpus = Callable[..., Corpus]
Cli = Callable[..., tuple[int, str, str]]

SETTINGS = {
    "device": "cpu",
    "encoder": {"words": {"size": 12}, "chars": {"filters": 8}, "recurrent": {"size": 10}, "dropout": 0.1},
    "train": {"epochs": 5, "batch_size": 8, "lr": 0.02},
}


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Code, standard output and standard error of `nershift` with these arguments."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["nershift", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return call


@pytest.fixture(scope="module")
def files(make_corpus: MakeCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    news = make_corpus("news")
    write_corpus(folder / "news", news, "conll")
    (folder / "c.yaml").write_text(yaml.safe_dump(SETTINGS))
    write_sentences(folder / "pool.raw", [s.with_spans(()) for s in make_corpus("news", train=30, seed=1).train])
    (folder / "pool.txt").write_text(
        "Ada flew from Leeds to Porto. Nobody in Graz spoke.\nRuiz met Dr. Novak in Lima.\n"
    )
    transfer("target_only", news, out=folder / "run", config=SETTINGS, quiet=True, report=False)
    return folder


def test_curve(cli: Cli, files: Path, tmp_path: Path) -> None:
    command = ("curve", "--target", files / "news", "--out", tmp_path / "c", "--config", files / "c.yaml")
    command += ("--sizes", "8,16,32", "--seeds", 2, "--reach", 0.9, "--quiet")
    code, out, err = cli(*command)
    assert code == 0, err
    assert "How many sentences to reach it" in out
    assert "curve.html" in out
    code, out, err = cli(*command, "--json")
    told = json.loads(out)
    assert [p["sentences"] for p in told["curves"][0]["points"]] == [8, 16, 32]
    assert told["goals"] == [0.9]
    assert told == json.loads((tmp_path / "c" / "curve.json").read_text())
    code, _, err = cli(*command, "--set", "train.epochs=6")
    assert code == 1
    assert "other settings or data" in err
    assert "choose another --out, or delete this one" in err
    assert "--overwrite" not in err


def test_curve_refusals(cli: Cli, files: Path, tmp_path: Path) -> None:
    for extra, message in (
        (("--sizes", "8;16"), "whole numbers"),
        (("--reach", 90), "write 0.9 for 90 points"),
        (("--method", "in_domain,metanr"), "did you mean 'metaner'"),
        (("--method", "finetune"), "source corpora"),
    ):
        code, _, err = cli("curve", "--target", files / "news", "--out", tmp_path / "x", *extra)
        assert code == 1
        assert message in " ".join(err.split())


@pytest.mark.parametrize("name", ["n.jsonl", "n.conll", "n.raw", "n.doccano.jsonl", "n.argilla.jsonl", "n.spacy"])
def test_next_in_every_format(cli: Cli, files: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    code, shown, err = cli("next", "--model", files / "run", files / "pool.raw", "--count", 5, "--out", out)
    assert code == 0, err
    assert "5 of 30 sentences" in shown
    read = read_sentences(out, problems=Problems(repair=True))
    assert len(read) == 5
    assert not any(s.spans for s in read)
    pool = {s.tokens for s in read_sentences(files / "pool.raw")}
    assert {s.tokens for s in read} <= pool


def test_next_with_suggestions(cli: Cli, files: Path, tmp_path: Path) -> None:
    common = ("next", "--model", files / "run", files / "pool.raw", "--count", 20, "--suggest", "--out")
    code, out, err = cli(*common, tmp_path / "n.jsonl", "--json", "--labelled", files / "news")
    assert code == 0, err
    told = json.loads(out)
    read = read_sentences(tmp_path / "n.jsonl")
    assert [list(s.tokens) for s in read] == [c["tokens"] for c in told["chosen"]]
    spans = [[[x.start, x.end, x.label] for x in s.spans] for s in read]
    assert spans == [[e[:3] for e in c["entities"]] for c in told["chosen"]]
    assert any(spans)
    assert cli(*common, tmp_path / "n.argilla.jsonl")[0] == 0
    records = [json.loads(line) for line in (tmp_path / "n.argilla.jsonl").read_text().splitlines()]
    assert {r["status"] for r in records} == {"Default"}
    assert any(r["prediction"] for r in records)
    assert not any("annotation" in r for r in records)
    code, _, err = cli(*common, tmp_path / "n.raw")
    assert code == 1
    assert "raw text cannot hold" in err


def test_next_keeps_running_text_as_it_is(cli: Cli, files: Path, tmp_path: Path) -> None:
    code, _, err = cli(
        "next", "--model", files / "run", files / "pool.txt", "--count", 3, "--out", tmp_path / "n.jsonl"
    )
    assert code == 0, err
    texts = {json.loads(line)["text"] for line in (tmp_path / "n.jsonl").read_text().splitlines()}
    assert texts == {"Ada flew from Leeds to Porto.", "Nobody in Graz spoke.", "Ruiz met Dr. Novak in Lima."}


def test_only_formats_that_can_be_written_are_offered(cli: Cli) -> None:
    for verb in ("next", "convert"):
        code, out, _ = cli(verb, "--help")
        told = "".join(out.replace("│", " ").split())
        assert code == 0
        listed = told[told.index("--to") :]
        assert "conll,argilla,brat,datasets" in listed
        assert "ace2005" not in listed


def test_next_refusals(cli: Cli, files: Path, tmp_path: Path) -> None:
    common = ("next", "--model", files / "run", "--out", tmp_path / "n.jsonl")
    code, _, err = cli(*common, files / "pool.raw", "--count", 31)
    assert code == 1
    assert "31 sentences were asked of" in err
    code, _, err = cli(*common, files / "absent.raw")
    assert code == 1
    assert "no such file" in err
    code, _, err = cli(*common, files / "pool.raw", "--device", "tpu")
    assert code == 1
    assert "device: found 'tpu'" in err
    assert not (tmp_path / "n.jsonl").exists()
