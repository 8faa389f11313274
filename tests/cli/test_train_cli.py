"""The command line from files to entities, in this process; every wrong call ends in a message."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from nershift import __version__
from nershift.cli import spread
from nershift.cli.settings_page import page
from nershift.config import to_dict
from nershift.data.corpus import Corpus
from nershift.data.formats import read_sentences, write_corpus, write_sentences
from nershift.errors import Interrupted, NershiftError
from nershift.run import resolve
from nershift.run_folder import Run
from nershift.tagger.ensemble import Ensemble

MakeCorpus = Callable[..., Corpus]
Cli = Callable[..., Any]


def test_train_shows_and_writes_a_run(cli: Cli, files: Path, tmp_path: Path) -> None:
    run = (
        "train",
        "--target",
        files / "news",
        "--out",
        tmp_path / "r",
        "--config",
        files / "c.yaml",
        "--quiet",
    )
    done = cli(*run, "--set", "train.epochs=9", "--seed", 3)
    assert done.code == 0, done.err
    assert "report.html" in done.out
    assert Run.open(tmp_path / "r").metrics["seed"] == 3
    assert yaml.safe_load((tmp_path / "r" / "config.yaml").read_text())["train"]["epochs"] == 9
    refused = cli(*run)
    assert refused.code == 1
    assert "other settings or data" in refused.err
    assert cli(*run, "--overwrite", "--shots", 12).code == 0
    assert Run.open(tmp_path / "r").metrics["labelled"] == 12


def test_types_that_mean_the_same_are_named_on_the_command_line(cli: Cli, files: Path, tmp_path: Path) -> None:
    run = ("transfer", "--method", "finetune", "--source", files / "news", "--target", files / "clinic", "--out")
    run = (*run, tmp_path / "r", "--config", files / "c.yaml", "--quiet", "--set", "train.epochs=2")
    done = cli(*run, "--same", "drug=place")
    assert done.code == 0, done.err
    (note,) = Run.open(tmp_path / "r").metrics["remarks"]
    assert note == "The target head kept the source's rows for drug (place), person, place."
    assert note in " ".join(done.out.split())
    for wrong, message in (("drug", "TARGET_TYPE=SOURCE_TYPE"), ("drugg=place", "did you mean 'drug'")):
        refused = cli(*run, "--same", wrong, "--overwrite")
        assert refused.code == 1
        assert message in refused.err


def test_transfer_pretrain_adapt(cli: Cli, files: Path, tmp_path: Path) -> None:
    common = ("--config", files / "c.yaml", "--quiet", "--set", "train.epochs=2")
    source, target = ("--source", files / "news"), ("--target", files / "clinic")
    done = cli("transfer", "--method", "finetune", *source, *target, "--out", tmp_path / "t", *common)
    assert done.code == 0, done.err
    assert cli("pretrain", "--method", "finetune", *source, "--out", tmp_path / "p", *common).code == 0
    done = cli("adapt", "--from", tmp_path / "p", *target, "--out", tmp_path / "a", *common)
    assert done.code == 0, done.err
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "t/model.safetensors").read_bytes()


def test_dev_is_held_out_where_there_is_none(cli: Cli, files: Path, make_corpus: MakeCorpus, tmp_path: Path) -> None:
    write_corpus(tmp_path / "c", make_corpus("news", dev=0), "conll")
    run = ("train", "--target", tmp_path / "c", "--config", files / "c.yaml", "--quiet")
    assert cli(*run, "--out", tmp_path / "r", "--hold-out", 0.25).code == 0
    metrics = Run.open(tmp_path / "r").metrics
    assert metrics["labelled"] == 30
    assert "dev" in metrics
    assert cli(*run, "--out", tmp_path / "s", "--hold-out", 0).code == 0
    assert "dev" not in Run.open(tmp_path / "s").metrics


def test_methods_are_listed_with_their_other_names(cli: Cli) -> None:
    listed = cli("methods")
    assert listed.code == 0
    assert re.search(r"target_only +in_domain +target labels only", listed.out)
    assert "finetune" in listed.out
    assert cli("--version").out.strip() == f"nershift {__version__}"
    assert "predict" in cli("--help").out


def test_a_method_explains_its_settings(cli: Cli) -> None:
    told = cli("methods", "in_domain").out
    for fact in (
        r"target_only, in_domain: target labels only",
        r"paper: MetaNER §5.1.1",
        r"presets: default \(shown\), paper, crosslm",
        r"(?s)\nrun\n.*\nencoder\n.*\nhead\n.*\npretrain\n.*\ntrain\n",
        r"words.size +300 +Dimensions of random vectors; a vector file has its own. \(1 or more\)",
        r"default: 100",
        r"cell +gru +Recurrent cell. \(gru \| lstm\)",
        r"kind +crf +Registered name of the head. \(crf \| ",
    ):
        assert re.search(fact, told), fact
    assert re.search(r"epochs +100", cli("methods", "target_only", "--preset", "crosslm").out)
    assert "has no preset 'x'" in cli("methods", "target_only", "--preset", "x").err


def test_settings_of_a_method_as_yaml_are_a_config(cli: Cli) -> None:
    values = yaml.safe_load(cli("methods", "metaner", "--preset", "paper", "--yaml").out)
    assert values["train"]["batch_size"] == 32
    assert to_dict(resolve("metaner", values)) == values


def test_the_page_of_settings_is_up_to_date() -> None:
    path = Path(__file__).parents[2] / "docs/settings.md"
    assert path.read_text(encoding="utf-8") == page(), "run `make settings`"


def _objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_predict_from_standard_input_and_from_a_file(cli: Cli, trained: Path, tmp_path: Path) -> None:
    text = "Nobody in Leeds spoke in 1998 .\r\n\nIn Graz , Ruiz met Ada Novak . ÄÖ 🦉\n"
    piped = cli("predict", "--model", trained, "-", stdin=text.encode())
    assert piped.code == 0, piped.err
    rows = _objects(piped.out)
    assert [r["text"] for r in rows] == [line.rstrip("\r") for line in text.split("\n")[:-1]]
    for row in rows:
        for entity in row["entities"]:
            assert row["text"][entity["start"] : entity["end"]] == entity["text"]
            assert 0 <= entity["score"] <= 1
    assert any(e["text"] == "Leeds" for e in rows[0]["entities"])
    (tmp_path / "in.txt").write_bytes(text.encode())
    assert cli("predict", "--model", trained, tmp_path / "in.txt").out == piped.out
    voted = cli("predict", "--model", trained, "--model", trained, "-", stdin=text.encode())
    assert voted.out == piped.out  # a run agrees with itself
    scores = sorted(e["score"] for row in rows for e in row["entities"])
    some = cli("predict", "--model", trained, "--min-confidence", scores[1], "-", stdin=text.encode())
    kept = [e["score"] for row in _objects(some.out) for e in row["entities"]]
    assert sorted(kept) == [x for x in scores if x >= scores[1]]


def test_byte_order_marks_and_old_line_ends_change_nothing(cli: Cli, trained: Path, tmp_path: Path) -> None:
    text = "Okafor flew from Leeds to Porto .\nIn Graz , Ruiz met Ada Novak .\n"
    expected = cli("predict", "--model", trained, "-", stdin=text.encode()).out
    assert len(_objects(expected)[0]["entities"]) >= 2
    marked = "\ufeff" + text.replace("\n", "\n\ufeff", 1)
    assert cli("predict", "--model", trained, "-", stdin=marked.encode()).out == expected
    (tmp_path / "in.txt").write_bytes(("\ufeff" + text.replace("\n", "\r")).encode())
    assert cli("predict", "--model", trained, tmp_path / "in.txt").out == expected
    tagger = Run.open(trained).tagger()
    inside = text.replace("Leeds", "\ufeffLeeds\ufeff")
    assert [e.text for e in tagger(inside)] == [e.text for e in tagger(text)]


def test_predict_a_corpus_file(cli: Cli, trained: Path, files: Path, tmp_path: Path) -> None:
    test = next(p for p in (files / "news").iterdir() if p.name.startswith("test"))
    done = cli("predict", "--model", trained, test, "--out", tmp_path / "tagged.jsonl")
    assert done.code == 0, done.err
    tagged = read_sentences(tmp_path / "tagged.jsonl")
    assert [s.tokens for s in tagged] == [s.tokens for s in read_sentences(test)]
    assert tagged[0].spans == Run.open(trained).tagger().tag_tokens([tagged[0].tokens])[0].spans


def test_predict_a_corpus_file_to_standard_output(cli: Cli, trained: Path, files: Path) -> None:
    test = next(p for p in (files / "news").iterdir() if p.name.startswith("test"))
    before = sorted((files / "news").iterdir())
    done = cli("predict", "--model", trained, test)
    assert done.code == 0, done.err
    assert sorted((files / "news").iterdir()) == before
    tagged = Run.open(trained).tagger().tag_sentences(read_sentences(test))
    rows = _objects(done.out)
    assert [row["text"] for row in rows] == [" ".join(s.tokens) for s in tagged]
    assert [[(e["text"], e["label"]) for e in row["entities"]] for row in rows] == [
        [(" ".join(s.tokens[x.start : x.end]), x.label) for x in s.spans] for s in tagged
    ]
    for row in rows:
        assert all(row["text"][e["start"] : e["end"]] == e["text"] for e in row["entities"])


def test_predict_in_python_gives_what_calling_gives(trained: Path) -> None:
    tagger = Run.open(trained).tagger()
    texts = ["Nobody in Leeds spoke in 1998 .", "Ada flew from Graz to Lima ."]
    assert tagger.predict(texts) == tagger(texts)
    for together, alone in zip(tagger.predict(texts), map(tagger.predict, texts), strict=True):
        # A batch of another size rounds otherwise.
        assert [replace(e, score=0.0) for e in together] == [replace(e, score=0.0) for e in alone]
        assert [e.score for e in together] == pytest.approx([e.score for e in alone], abs=1e-6)
    assert Ensemble([tagger, tagger]).predict(texts[0]) == tagger.predict(texts[0])


def test_evaluate_a_run_and_runs_that_vote(cli: Cli, trained: Path, files: Path) -> None:
    test = next(p for p in (files / "news").iterdir() if p.name.startswith("test"))
    alone = cli("evaluate", "--model", trained, "--data", test, "--json")
    assert alone.code == 0, alone.err
    assert json.loads(alone.out)["scores"]["f1"] == pytest.approx(Run.open(trained).f1)
    voted = cli("evaluate", "--model", trained, "--model", trained, "--data", test, "--json")
    assert json.loads(voted.out)["scores"] == json.loads(alone.out)["scores"]


def test_wrong_calls_of_train(cli: Cli, files: Path, tmp_path: Path) -> None:
    def fails(*more: object, target: object = files / "news", code: int = 1) -> str:
        done = cli("train", "--target", target, "--out", tmp_path / "r", "--quiet", *more)
        assert done.code == code, done.err
        assert not (tmp_path / "r" / "metrics.json").exists()
        return done.err

    assert "did you mean 'epochs'" in fails("--set", "train.epohcs=3")
    assert "--set" in fails("--set", "train.epochs")
    assert "found 'many'" in fails("--set", "train.epochs=many")
    assert "batch_size" in fails("--set", "train.batch_size=-1")
    assert "did you mean 'finetune'" in fails("--method", "finetun")
    assert "--source" in fails("--method", "finetune")
    assert "nowhere" in fails(target=tmp_path / "nowhere")
    assert "nowhere.yaml" in fails("--config", tmp_path / "nowhere.yaml")
    assert "nowhere" in fails("--method", "finetune", "--source", tmp_path / "nowhere")
    assert "NAME=FILE" in fails("--raw", "text.txt")
    assert "ratio" in fails("--ratio", "7").lower()
    assert "shots" in fails("--shots", "-3", code=2)
    assert "hold-out" in fails("--hold-out", "1.5", code=2)
    assert "no file 'v.txt'" in fails("--set", "encoder.words.vectors=v.txt")
    (tmp_path / "bad.yaml").write_text("train: [")
    assert "bad.yaml:1" in fails("--config", tmp_path / "bad.yaml")
    (tmp_path / "bad" / "train.conll").parent.mkdir()
    (tmp_path / "bad" / "train.conll").write_bytes(b"caf\xe9 O\nRome B-LOC\n")
    assert "train.conll:1" in fails(target=tmp_path / "bad")
    assert "No such option" in fails("--sauce", "x", code=2)
    (tmp_path / "afile").write_text("x")
    for verb in (("train", "--target", files / "news", "--out"), ("builtin",)):
        done = cli(*verb, tmp_path / "afile")
        assert done.code == 2
        assert "is a file" in done.err
    assert "there is no such folder" in cli("states", tmp_path / "nosuch").err
    assert "adapt" in cli("adap").err


def test_text_without_labels_is_not_taken_for_labelled(cli: Cli, trained: Path, files: Path, tmp_path: Path) -> None:
    text, news = tmp_path / "notes.txt", files / "news"
    text.write_text("Ruiz flew to Leeds.\n")
    (tmp_path / "raw.txt").write_text("Ruiz flew to Leeds .\n")
    new = ("--out", tmp_path / "r", "--quiet")
    for call in (
        ("train", "--target", text, *new),
        ("train", "--target", tmp_path / "raw.txt", *new),
        ("transfer", "--method", "finetune", "--target", news, "--source", text, *new),
        ("evaluate", "--model", trained, "--data", text),
        ("evaluate", "--gold", text, "--pred", text),
        ("thresholds", "--model", trained, "--file", text),
    ):
        done = cli(*call)
        assert done.code == 1
        assert "text without labels" in done.err
        assert "conll, datasets, docbin" in done.err
    (tmp_path / "c").mkdir()
    for split in ("train", "test"):
        (tmp_path / "c" / f"{split}.conll").write_bytes((news / f"{split}.conll").read_bytes())
    (tmp_path / "c" / "raw.txt").write_text("Ruiz flew to Leeds .\n")
    done = cli("train", "--target", tmp_path / "c", *new, "--config", files / "c.yaml", "--set", "train.epochs=1")
    assert done.code == 0, done.err  # a folder may hold raw text beside its splits


def test_a_folder_in_place_of_a_file(cli: Cli, trained: Path, files: Path, tmp_path: Path) -> None:
    news = files / "news"
    for call in (
        ("evaluate", "--model", trained, "--data", news),
        ("thresholds", "--model", trained, "--file", news),
        ("predict", "--model", trained, news),
        ("predict", "--model", trained, news, "--out", tmp_path / "x.jsonl"),
    ):
        done = cli(*call)
        assert done.code == 1
        assert "news: this is a folder" in done.err
        assert "name a file in it: dev.conll, test.conll, train.conll" in done.err
    write_sentences(tmp_path / "pairs", read_sentences(news / "test.conll"), "brat")
    done = cli("predict", "--model", trained, tmp_path / "pairs")  # a folder that is one unit
    assert done.code == 0, done.err
    assert len(_objects(done.out)) == len(read_sentences(tmp_path / "pairs"))


def test_wrong_calls_of_predict_and_adapt(cli: Cli, trained: Path, files: Path, tmp_path: Path) -> None:
    def fails(*arguments: object, stdin: bytes = b"") -> str:
        done = cli(*arguments, stdin=stdin)
        assert done.code == 1, done.err
        return done.err

    assert "no model here" in fails("predict", "--model", tmp_path, "-")
    assert "2 runs were given to vote" in fails("predict", "--model", trained, "--model", trained, "-", "--adapt")
    assert "no such file" in fails("predict", "--model", trained, tmp_path / "absent.txt")
    for least in (5, -0.1, "nan"):
        told = fails("predict", "--model", trained, "-", "--min-confidence", least)
        assert "--min-confidence: found" in told
        assert "0 to 1" in told
    assert "--why: needs --adapt" in fails("predict", "--model", trained, "-", "--why")
    lost = ("--why", "--adapt", "--out", tmp_path / "x.jsonl")
    assert "omit --out" in fails("predict", "--model", trained, files / "news" / "test.conll", *lost)
    assert "-:2: not UTF-8" in fails("predict", "--model", trained, "-", stdin=b"fine\ncaf\xe9\n")
    assert "--out needs a file" in fails("predict", "--model", trained, "-", "--out", tmp_path / "x.jsonl")
    assert "no model here" in fails("adapt", "--from", tmp_path, "--target", files / "news", "--out", tmp_path / "a")
    other = ("--set", "encoder.recurrent.size=3", "--set", "device=cpu", "--quiet")
    source = ("--source", files / "news", "--set", "pretrain.epochs=1")
    assert cli("pretrain", "--method", "finetune", *source, "--out", tmp_path / "p", *other).code == 0
    wide = ("--set", "encoder.recurrent.size=4", "--set", "device=cpu", "--quiet")
    found = fails("adapt", "--from", tmp_path / "p", "--target", files / "clinic", "--out", tmp_path / "b", *wide)
    assert "was pretrained with encoder.recurrent" in found


def test_ctrl_c_and_a_full_disk_are_no_tracebacks(
    cli: Cli, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_with(error: BaseException) -> Any:
        def fail(*args: object, **settings: object) -> None:
            raise error

        monkeypatch.setattr("nershift.run.transfer", fail)
        return cli("train", "--target", files / "news", "--out", tmp_path / "r")

    assert fail_with(KeyboardInterrupt()).code == 130
    assert fail_with(Interrupted("stopped after step 3")).code == 130
    assert fail_with(NershiftError("anything else")).code == 1
    full = fail_with(OSError(28, "No space left on device", "model.safetensors"))
    assert full.code == 1
    assert "No space left on device" in full.err


def test_several_sources_follow_one_option() -> None:
    assert spread(["--source", "a", "b", "--source", "c", "-q", "x"]) == [
        *("--source", "a", "--source", "b", "--source", "c", "-q", "x")
    ]
    assert spread(["predict", "--model", "m", "-"]) == ["predict", "--model", "m", "-"]


def test_the_package_runs_as_a_module() -> None:
    told = subprocess.run([sys.executable, "-m", "nershift", "--help"], capture_output=True, text=True, check=True)
    assert "transfer" in told.stdout
