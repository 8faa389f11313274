"""What stands in data reaches no terminal as a command."""

from __future__ import annotations

import ast
import io
import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from nershift.cli import main
from nershift.console import VisibleConsole, has_control, say, show_traceback, to_json, visible
from nershift.data.formats import write_sentences
from nershift.data.spans import Sentence

SOURCE = Path(__file__).parents[1] / "src" / "nershift"
EVIL = "a\x1b]0;owned\x07\x1b[2Jb\x9b31m\x7f\r\x08\x00\udc9bc"


def test_pictures_stand_for_control_characters() -> None:
    assert visible("a\tb\n") == "a\tb\n"
    assert visible(EVIL) == "a␛]0;owned␇␛[2Jb�31m␡␍␈␀�c"
    assert has_control(EVIL)
    assert not has_control(visible(EVIL))


def test_json_stays_the_same_value() -> None:
    assert json.loads(to_json({"a": [EVIL, "Łódź"]})) == {"a": [EVIL, "Łódź"]}
    assert not has_control(to_json(EVIL))
    assert "Łódź" in to_json("Łódź")


def test_a_console_keeps_its_own_colours_only() -> None:
    file = io.StringIO()
    console = VisibleConsole(file=file, force_terminal=True, color_system="standard", width=100)
    table = Table(title=Text(EVIL))
    table.add_column(Text(EVIL))
    table.add_row(Text(EVIL, "red"))
    for shown in (EVIL, Text(EVIL, "bold red"), table):
        console.print(shown)
    out = file.getvalue()
    assert "\x1b[1;31m" in out
    assert all(part not in out for part in ("\x1b]", "\x1b[2J", "\x9b", "\x07", "\x7f", "\x00", "\r"))
    assert out.count("owned") == 5


def test_lines_and_tracebacks(capsys: pytest.CaptureFixture[str]) -> None:
    say(EVIL)
    say(EVIL, err=True)
    show_traceback(ValueError, ValueError(EVIL), None)
    out, err = capsys.readouterr()
    assert not has_control(out + err)
    assert "ValueError: a␛]" in err


def test_no_command_shows_control_characters_of_a_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    word, label = "ab\x1b[2J\x9b", "LOC\x1b]0;x\x07"
    path = tmp_path / "train.conll"
    write_sentences(path, [Sentence.of([word, "."], [(0, 1, label)])] * 3)
    bad = tmp_path / "\x1b[31mdev.conll"
    bad.write_text(f"{word}\tI-{label}\nx\t{label}\n")
    commands = (
        ("check", tmp_path),
        ("check", "--json", path),
        ("convert", tmp_path, tmp_path / "out"),
        ("convert", "--repair", tmp_path, tmp_path / "out"),
        ("evaluate", "--gold", path, "--pred", path),
        ("evaluate", "--json", "--gold", path, "--pred", path),
        ("train", "--target", bad, "--out", tmp_path / "r"),
        ("check", "no", "such", "\x1b[2J"),
        ("\x1b[2J",),
    )
    for command in commands:
        monkeypatch.setattr(sys, "argv", ["nershift", *map(str, command)])
        with suppress(SystemExit):
            main()
        out, err = capfd.readouterr()
        assert out + err
        assert not has_control(out + err), command


def test_everything_is_printed_through_one_module() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        if path.name == "console.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("Console", "print", "typer.echo", "typer.secho", "rich.print"):
                wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno} {called}")  # type: ignore[attr-defined]
    assert not wrong
