"""The verbs `evaluate` and `compare`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

import nershift
from nershift.cli import score
from nershift.data.formats import write_sentences
from nershift.data.spans import Sentence, Span
from nershift.errors import NershiftError
from nershift.evaluation.predictions import read_predictions, write_predictions

GOLD = [Sentence.of(["Ada", "left", "Rome"], [(0, 1, "PER"), (2, 3, "LOC")])] * 30
WEAK = [[Span(0, 1, "PER", 0.5)] if i % 2 else [] for i in range(30)]
STRONG = [[Span(0, 1, "PER", 0.9), Span(2, 3, "LOC", 0.8)]] * 30


def call(*arguments: object) -> Result:
    app = typer.Typer()
    score.register(app)
    return CliRunner().invoke(app, [str(a) for a in arguments])


def refused(*arguments: object) -> str:
    result = call(*arguments)
    assert result.exit_code != 0
    assert isinstance(result.exception, NershiftError)
    return str(result.exception)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name, pred in {"weak": WEAK, "strong": STRONG}.items():
        write_predictions(tmp_path / name / "predictions.jsonl", GOLD, pred)
        (tmp_path / name / "metrics.json").write_text("{}")
    return tmp_path


def test_evaluate_files(tmp_path: Path) -> None:
    write_sentences(tmp_path / "gold.conll", GOLD)
    write_sentences(tmp_path / "pred.conll", [s.with_spans(p) for s, p in zip(GOLD, WEAK, strict=True)])
    files = ("--gold", tmp_path / "gold.conll", "--pred", tmp_path / "pred.conll")
    result = call("evaluate", *files, "--json", "--html", tmp_path / "r.html", "--save", tmp_path / "p.jsonl",
                  "--markdown", tmp_path / "r.md", "--train", tmp_path / "gold.conll")  # fmt: skip
    assert result.exit_code == 0, result.output
    row = json.loads(result.output)
    assert (row["scores"]["correct"], row["scores"]["support"]) == (15, 60)
    assert row["f1_interval"]["low"] < row["scores"]["f1"] < row["f1_interval"]["high"]
    assert row["analysis"]["kinds"]["LOC"]["missed"] == 30
    assert row["analysis"]["seen"]["support"] == 60
    assert "<h1>" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert (tmp_path / "r.md").read_text(encoding="utf-8").startswith("# pred.conll against gold.conll")
    assert len(read_predictions(tmp_path / "p.jsonl")[0]) == 30
    shown = call("evaluate", *files)
    assert "40.00" in shown.output


def test_evaluate_other_tokens(tmp_path: Path) -> None:
    write_sentences(tmp_path / "gold.conll", GOLD)
    write_sentences(tmp_path / "pred.conll", [*GOLD[:-1], Sentence.of(["Ada", "right", "Rome"])])
    message = refused("evaluate", "--gold", tmp_path / "gold.conll", "--pred", tmp_path / "pred.conll")
    assert "pred.conll:" in message
    assert "sentence 30" in message


@pytest.mark.parametrize(
    "given", [(), ("--gold", "a"), ("--gold", "a", "--data", "b"), ("--model", "m", "--pred", "p")]
)
def test_evaluate_needs_one_pair(given: tuple[str, ...]) -> None:
    message = refused("evaluate", *given)
    assert "--model DIR --data FILE" in message


def test_compare_runs(runs: Path) -> None:
    result = call("compare", runs / "weak", runs / "strong", "--json", "--html", runs / "c.html")
    assert result.exit_code == 0, result.output
    row = json.loads(result.output)
    assert row["names"] == ["weak", "strong"]
    assert row["difference"]["value"] == pytest.approx(0.6)
    assert row["significant"] is True
    assert row["p_randomisation"] < 0.001
    assert row["verdict"].startswith("strong is better than weak by 60.00 F1 points")
    assert "strong is better" in (runs / "c.html").read_text(encoding="utf-8")
    shown = call("compare", runs / "weak", runs / "strong" / "predictions.jsonl")
    assert "is better than weak" in shown.output
    assert "60.00" in shown.output


def test_compare_in_python_gives_what_the_command_prints(runs: Path) -> None:
    test = nershift.compare(runs / "weak", str(runs / "strong"))
    row = json.loads(call("compare", runs / "weak", runs / "strong", "--json").output)
    assert test.to_dict() == {key: row[key] for key in test.to_dict()}
    strong = nershift.Run(runs / "strong", {})
    assert nershift.compare(runs / "weak", strong) == test


def test_compare_with_itself(runs: Path) -> None:
    row = json.loads(call("compare", runs / "weak", runs / "weak", "--json").output)
    assert row["significant"] is False
    assert row["p_randomisation"] == 1.0
    assert row["names"] == [str(runs / "weak")] * 2


def test_compare_refuses_other_test_data(runs: Path) -> None:
    other = [*GOLD[:4], Sentence.of(["Ada", "left", "Rome"], [(0, 1, "PER")]), *GOLD[5:]]
    write_predictions(runs / "other.jsonl", other, STRONG)
    message = refused("compare", runs / "weak", runs / "other.jsonl")
    assert "gold entities of test sentence 5 differ" in message
    assert "other.jsonl:5" in message
    write_predictions(runs / "other.jsonl", GOLD[:9], STRONG[:9])
    assert "30 and 9 test sentences" in refused("compare", runs / "weak", runs / "other.jsonl")


def test_compare_refuses_unfinished_runs(runs: Path) -> None:
    (runs / "weak" / "metrics.json").unlink()
    assert "no metrics.json" in refused("compare", runs / "weak", runs / "strong")
    assert "cannot be read" in refused("compare", runs / "nowhere", runs / "strong")
