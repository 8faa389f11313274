"""`nershift fit` on the command line: the plan, a whole fit, and the command that it prints."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nershift.cli import app, spread
from nershift.data.formats import write_corpus
from nershift.errors import ConfigError


@pytest.fixture
def corpora(make_corpus: Any, tmp_path: Path, monkeypatch: Any) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("clinic", "news"):
        write_corpus(tmp_path / name, make_corpus(name))
    Path("text.txt").write_text("pt Okafor given 20mg zolpirex\n" * 30)
    return tmp_path


def run(*words: str) -> Any:
    return CliRunner().invoke(app, spread(["fit", *words]), catch_exceptions=False)


def test_a_plan_in_lines_and_as_json(corpora: Path) -> None:
    asked = [
        "--target",
        "clinic",
        "--source",
        "news",
        "--shots",
        "20",
        "--encoder",
        "none",
        "--plan",
        "--minutes",
        "20",
    ]
    told = run(*asked, "--raw", "text.txt").stdout
    for part in ("target   clinic: 20 labelled", "source   news", "text     30", "finetune", "your labels alone"):
        assert part in told
    made = json.loads(run(*asked, "--json").stdout)
    assert {c["recipe"] for c in made["candidates"]} >= {"target_only", "finetune"}
    assert not list(corpora.glob("*/fit.json"))


def test_a_fit_and_the_command_it_prints(corpora: Path) -> None:
    told = run("--target", "clinic", "--shots", "1", "--encoder", "none", "--minutes", "3", "--out", "out").stdout
    assert "a first tagger is in out (target_only)" in told
    assert "tagger and report: out" in told
    line = next(line for line in told.splitlines() if line.startswith("the winner alone: "))
    words = shlex.split(line.removeprefix("the winner alone: "))
    assert words[:4] == ["nershift", "transfer", "--method", "target_only"]
    again = CliRunner().invoke(app, [*words[1:], "--quiet"], catch_exceptions=False)
    assert again.exit_code == 0
    weights = [Path(folder, "model.safetensors").read_bytes() for folder in ("out", "out-again")]
    assert weights[0] == weights[1]
    tagged = CliRunner().invoke(app, ["predict", "--model", "out", "text.txt"], catch_exceptions=False)
    assert len(tagged.stdout.splitlines()) == 30


def test_a_folder_is_asked_for(corpora: Path) -> None:
    with pytest.raises(ConfigError, match="--plan to look only"):
        run("--target", "clinic")
