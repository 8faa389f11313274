"""What a new user does wrong, or meets, on the first afternoon: each ends in a message that helps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nershift.data.formats import read_corpus, read_sentences, write_corpus, write_sentences
from nershift.data.spans import Sentence

Cli = Callable[..., Any]
ONE = Sentence.of(["Ada", "left", "Leeds", "."], [(0, 1, "person"), (2, 3, "place")])


@pytest.mark.parametrize(("asked", "same"), [(("help",), ("--help",)), (("help", "train"), ("train", "--help"))])
def test_help_is_a_command(cli: Cli, asked: tuple[str, ...], same: tuple[str, ...]) -> None:
    found, expected = cli(*asked), cli(*same)
    assert (found.code, found.out) == (expected.code, expected.out) == (0, expected.out)
    assert "Usage" in found.out


def test_help_for_a_command_that_is_not_there(cli: Cli) -> None:
    found = cli("help", "trian")
    assert found.code == 2
    assert "trian" in found.err


def renamed(files: Path, out: Path, mapping: dict[str, str]) -> Path:
    corpus = read_corpus(files / "news").mapped(mapping)
    write_sentences(out, corpus.test)
    return out


def test_types_that_a_model_lacks_are_told(cli: Cli, trained: Path, files: Path, tmp_path: Path) -> None:
    data = renamed(files, tmp_path / "city.conll", {"place": "city"})
    shown = cli("evaluate", "--model", trained, "--data", data)
    assert shown.code == 0, shown.err
    text = " ".join(shown.out.split())
    assert "Warning: trained has no such type, so all of these count as missed: city (" in text
    assert "Its own: person, place." in text
    assert "mapped({'city': 'place'})" in text
    report = json.loads(cli("evaluate", "--model", trained, "--data", data, "--json").out)
    assert [(w["kind"], w["level"]) for w in report["warnings"]] == [("unknown_types", "warning")]


def test_none_of_the_types_is_a_failure(cli: Cli, trained: Path, files: Path, tmp_path: Path) -> None:
    data = renamed(files, tmp_path / "x.conll", {"place": "LOC", "person": "Persons"})
    page = tmp_path / "r.html"
    shown = cli("evaluate", "--model", trained, "--data", data, "--html", page)
    assert "Failed: trained has none of the types of the data: LOC (" in " ".join(shown.out.split())
    assert "mapped({'Persons': 'person'})" in " ".join(shown.out.split())
    assert "has none of the types" in page.read_text()


def test_types_of_files_are_compared_too(cli: Cli, files: Path, tmp_path: Path) -> None:
    gold, pred = files / "news" / "test.conll", renamed(files, tmp_path / "pred.conll", {"place": "city"})
    shown = cli("evaluate", "--gold", gold, "--pred", pred)
    assert "pred.conll has no such type, so all of these count as missed: place (" in " ".join(shown.out.split())
    assert "Warning" not in cli("evaluate", "--gold", gold, "--pred", gold).out


@pytest.mark.parametrize("name", ["metrics.json", "model.json", "model.safetensors", "predictions.jsonl"])
@pytest.mark.parametrize("how", ["cut", "gone"])
def test_a_damaged_run_is_not_said_to_be_done(
    cli: Cli, trained: Path, files: Path, tmp_path: Path, name: str, how: str
) -> None:
    out = tmp_path / "r"
    shutil.copytree(trained, out)
    if how == "gone":
        if name == "metrics.json":
            return  # then the run is not finished, and goes on
        (out / name).unlink()
    else:
        (out / name).write_bytes((out / name).read_bytes()[:50])
    again = ("train", "--target", files / "news", "--out", out, "--config", files / "c.yaml", "--quiet")
    done = cli(*again)
    assert done.code == 1
    assert "the run is finished, but damaged" in done.err
    assert "--overwrite" in done.err
    assert done.out == ""
    assert cli(*again, "--overwrite").code == 0
    assert cli(*again).code == 0


def test_commands_that_read_a_model_can_be_told_not_to_check_its_files(
    cli: Cli, trained: Path, files: Path, tmp_path: Path
) -> None:
    run, test = tmp_path / "r", files / "news" / "test.conll"
    shutil.copytree(trained, run)
    text = (run / "model.json").read_text()
    (run / "model.json").write_text(text + "\n")  # the same to any reader
    for given in (
        ("predict", "--model", run, test),
        ("evaluate", "--model", run, "--data", test),
        ("thresholds", "--model", run, "--file", test),
        ("thresholds", "--model", run),
        ("next", "--model", run, test, "--out", tmp_path / "next.conll", "--count", "5"),
        ("export", "--model", run, "--out", tmp_path / "copy"),
    ):
        refused = cli(*given)
        assert refused.code == 1, given
        assert "--no-verify" in refused.err
        done = cli(*given, "--no-verify")
        assert done.code == 0, done.err


def test_updates_that_would_never_end_are_a_slip(cli: Cli, files: Path, tmp_path: Path) -> None:
    for setting, most in (("train.updates", "100,000,000"), ("train.epochs", "1,000,000")):
        given = ("--target", files / "news", "--out", tmp_path / "r", "--set", f"{setting}={'9' * 26}")
        refused = cli("train", *given, "--quiet")
        assert refused.code == 1
        assert f"config.{setting}: found {'9' * 26}" in refused.err
        assert f"expected: a whole number, 0 to {most}" in refused.err
        assert not (tmp_path / "r").exists()


def test_a_damaged_pretraining_is_not_said_to_be_done(cli: Cli, files: Path, tmp_path: Path) -> None:
    given = ("--method", "finetune", "--source", files / "news", "--out", tmp_path / "p", "--config", files / "c.yaml")
    assert cli("pretrain", *given, "--quiet").code == 0
    assert cli("pretrain", *given, "--quiet").code == 0
    (tmp_path / "p" / "model.safetensors").write_bytes(b"")
    done = cli("pretrain", *given, "--quiet")
    assert done.code == 1
    assert "the run is finished, but damaged" in done.err


@pytest.fixture
def one(tmp_path: Path) -> Path:
    write_sentences(tmp_path / "one" / "train.conll", [ONE])
    return tmp_path / "one"


def test_one_sentence_is_trained_on(cli: Cli, one: Path, files: Path, tmp_path: Path) -> None:
    """It is neither held out nor lost: as a target, and as a source, of which a tenth is held out otherwise."""
    given = ("--config", files / "c.yaml", "--quiet")
    assert cli("train", "--target", one, "--out", tmp_path / "a", *given).code == 0
    target = ("--target", files / "news", "--source", one, "--method", "finetune")
    assert cli("train", *target, "--out", tmp_path / "b", *given).code == 0
    assert json.loads((tmp_path / "a" / "metrics.json").read_text())["labelled"] == 1


@pytest.mark.parametrize("asked", [("--hold-out", "0.1"), ("--set", "selection=held_out")])
def test_one_sentence_cannot_be_held_out(cli: Cli, one: Path, tmp_path: Path, asked: tuple[str, ...]) -> None:
    done = cli("train", "--target", one, "--out", tmp_path / "r", *asked)
    assert done.code == 1
    assert "corpus 'one' has 1 labelled sentence: there is none to hold out" in done.err
    assert "omit --hold-out" in done.err


def test_two_sentences_are_never_all_held_out(one: Path, tmp_path: Path) -> None:
    write_sentences(one / "train.conll", [ONE, ONE])
    held = read_corpus(one).hold_out(0.9)
    assert (len(held.train), len(held.dev)) == (1, 1)


@pytest.mark.parametrize("name", ["./encoders/bert", "/no/such/encoder", "~/bert", "a/b/c"])
def test_an_encoder_folder_that_is_not_there(cli: Cli, files: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("transformers")
    kind = ("--set", "encoder.kind=transformer", "--set", f"encoder.transformer.name={name}")
    done = cli("train", "--target", files / "news", "--out", tmp_path / "r", *kind)
    assert done.code == 1
    assert f"encoder.transformer.name: there is no folder '{name}'" in done.err
    assert "check the path" in done.err
    assert "repo" not in done.err.lower()


def test_an_encoder_that_is_a_file(cli: Cli, files: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    name = files / "c.yaml"
    kind = ("--set", "encoder.kind=transformer", "--set", f"encoder.transformer.name={name}")
    assert "is a file" in cli("train", "--target", files / "news", "--out", tmp_path / "r", *kind).err


def test_progress_without_a_terminal_is_told_in_lines(cli: Cli, files: Path, tmp_path: Path) -> None:
    done = cli("train", "--target", files / "news", "--out", tmp_path / "r", "--config", files / "c.yaml")
    assert "train: 0 of 40 updates" in done.err
    assert "train: 40 of 40 updates, best dev F1" in done.err
    assert "\r" not in done.err
    assert "\x1b" not in done.err


def test_mixed_schemes_are_named(cli: Cli, tmp_path: Path) -> None:
    lines = "Ada B-PER\nLovelace I-PER\nleft O\n\nLeeds S-LOC\nis O\nbig O\n\n"
    (tmp_path / "train.conll").write_text(lines * 3)
    done = cli("train", "--target", tmp_path, "--out", tmp_path / "r")
    assert "tags of two schemes: with S- (BIOES) 3, entities that end without E- (BIO) 3." in done.err
    assert "write the file again in one scheme" in done.err
    done = cli("convert", "--repair", tmp_path / "train.conll", tmp_path / "mended.conll")
    assert done.code == 0, done.err
    assert sum(len(s.spans) for s in read_sentences(tmp_path / "mended.conll")) == 6


def test_settings_files_and_corpora_survive_a_byte_order_mark(cli: Cli, files: Path, tmp_path: Path) -> None:
    short = yaml.safe_load((files / "c.yaml").read_text()) | {"train": {"epochs": 1, "batch_size": 8}}
    (tmp_path / "c.yaml").write_text("\ufeff" + yaml.safe_dump(short), encoding="utf-8")
    write_corpus(tmp_path / "news", read_corpus(files / "news"))
    for split in ("train", "dev", "test"):
        path = tmp_path / "news" / f"{split}.conll"
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    done = cli("train", "--target", tmp_path / "news", "--out", tmp_path / "r", "--config", tmp_path / "c.yaml")
    assert done.code == 0, done.err
    assert read_corpus(tmp_path / "news").digest() == read_corpus(files / "news").digest()
