"""Every answer with entities has the fields of the published JSON Schema, and means the same by them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nershift import Tagger
from nershift.cli import app
from nershift.data.corpus import Corpus
from nershift.run import transfer
from nershift.tagger.ensemble import Ensemble
from nershift.tagger.entities import SCHEMA

jsonschema = pytest.importorskip("jsonschema")
TEXT = "Okafor flew from Leeds to Porto .\n  In Graz, Ruiz met Ada Novak."


@pytest.fixture(scope="module")
def folder(make_corpus: Callable[..., Corpus], tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {
        "encoder": {"words": {"size": 16}, "chars": {"filters": 16}, "recurrent": {"size": 16}},
        "train": {"epochs": 12, "batch_size": 8, "lr": 0.02},
    }
    out = tmp_path_factory.mktemp("run") / "r"
    transfer("target_only", make_corpus("news", train=80), out=out, config=settings, quiet=True, report=False)
    return out


def checked(entities: Iterable[dict[str, Any]], text: str, tokens: list[str]) -> list[tuple[str, str]]:
    """Text and label of each entity, after a look at every field."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    out = []
    for entity in entities:
        jsonschema.validate(entity, schema)
        assert text[entity["start"] : entity["end"]] == entity["text"]
        words = tokens[entity["token_start"] : entity["token_end"]]
        assert "".join(words) == "".join(entity["text"].split())
        out.append((entity["text"], entity["label"]))
    assert len(out) >= 3
    return out


def test_python_command_line_and_server_answer_alike(folder: Path, tmp_path: Path) -> None:
    from nershift.server.inference import Reading, answer, tag

    tagger = Tagger.load(folder)
    reading = Reading.of_text(TEXT)
    expected = checked([e.to_dict() for e in tagger(TEXT)], TEXT, reading.tokens)
    assert checked([e.to_dict() for e in Ensemble([tagger])(TEXT)], TEXT, reading.tokens) == expected
    served = answer(reading, tag(tagger, reading.sentences), 0.0)["entities"]
    assert checked(served, TEXT, reading.tokens) == expected
    for entity in served:  # the earlier names stay for a release
        assert (entity["char_start"], entity["char_end"]) == (entity["start"], entity["end"])
        assert entity["confidence"] == entity["score"]
    line = " ".join(TEXT.split())
    (tmp_path / "t.txt").write_text(line)
    done = CliRunner().invoke(app, ["predict", "--model", str(folder), str(tmp_path / "t.txt")])
    assert checked(json.loads(done.stdout)["entities"], line, Reading.of_text(line).tokens)


def test_tokens_are_a_text_joined_by_spaces(folder: Path, tmp_path: Path) -> None:
    from nershift.server.inference import Reading, answer, tag

    tokens = ["Okafor", "flew", "from", "Leeds", "to", "Porto", "."]
    reading = Reading.of_tokens(tokens)
    served = answer(reading, tag(Tagger.load(folder), reading.sentences), 0.0)["entities"]
    (tmp_path / "t.conll").write_text("".join(f"{token} O\n" for token in tokens))
    done = CliRunner().invoke(app, ["predict", "--model", str(folder), str(tmp_path / "t.conll")])
    row = json.loads(done.stdout)
    text = " ".join(tokens)
    assert row["text"] == text
    assert checked(served, text, tokens) == checked(row["entities"], text, tokens)


def test_the_schema_is_printed_and_the_server_documents_it() -> None:
    from nershift.server.schemas import EntityAnswer

    done = CliRunner().invoke(app, ["predict", "--schema"])
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    assert printed == json.loads(SCHEMA.read_text(encoding="utf-8"))
    described = EntityAnswer.model_json_schema()["properties"]
    assert {(name, part["type"], part.get("deprecated", False)) for name, part in described.items()} == {
        (name, part["type"], part.get("deprecated", False)) for name, part in printed["properties"].items()
    }
