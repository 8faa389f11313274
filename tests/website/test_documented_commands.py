"""Every command and every piece of Python in the documents and notebooks runs, with far less training.

Five kinds are not run; for each, what can be checked is checked.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sandbox
import typer
from documented import PAGES, ROOT, Command, blocks, commands, inline

from nershift.auto.recipe import RECIPES
from nershift.cli import app
from nershift.data.corpus import Corpus
from nershift.data.formats import FORMATS
from nershift.encoders.base import ENCODERS
from nershift.heads.base import HEADS
from nershift.methods import METHODS
from test_examples import EXAMPLES

if shutil.which("bash") is None:
    pytest.skip("the commands are read by bash", allow_module_level=True)

VERBS: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
EXTRAS = set(re.findall(r"^(\w+) = \[", PYPROJECT, re.MULTILINE))
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
# Pages whose Python is tested elsewhere, with the test.
ELSEWHERE = {"CONTRIBUTING.md": "tests/test_recipes.py"}


def needs_the_network(words: tuple[str, ...]) -> bool:
    extras = {name for found in re.findall(r"\[([\w,]+)\]", " ".join(words)) for name in found.split(",")}
    return words[0] in ("pip", "uv", "git", "docker") and extras <= EXTRAS


def runs_the_tests_or_makes_an_environment(words: tuple[str, ...]) -> bool:
    return (words[0] == "make" and words[1] in TARGETS) or words[:3] == ("python3", "-m", "venv")


def takes_hours(words: tuple[str, ...]) -> bool:
    """Benchmarks, whose options must be in the script."""
    if words[0] != "python" or not words[1].startswith("benchmarks/"):
        return False
    script = (ROOT / words[1]).read_text("utf-8") + (ROOT / "benchmarks/common.py").read_text("utf-8")
    return all(f'"{word}"' in script for word in words if word.startswith("--"))


def writes_into_the_checkout(words: tuple[str, ...]) -> bool:
    """Experiments, which have tests of their own (tests/experiments); module, verb and options must be known."""
    if words[:2] != ("python", "-m") or not words[2].startswith("experiments"):
        return False
    name = "experiments.__main__" if words[2] == "experiments" else words[2]
    module = importlib.import_module(name)
    grids = getattr(module, "app", None)
    if grids is None:  # it reads its words itself
        return 'if __name__ == "__main__":' in inspect.getsource(module)
    known: dict[str, Any] = dict(typer.main.get_command(grids).commands)  # type: ignore[attr-defined]
    return knows(known, list(words[3:]))


def is_a_server(words: tuple[str, ...]) -> bool:
    """Started by tests/server; what curl asks for must be a route."""
    if words[0] == "curl":
        routes = (ROOT / "src/nershift/server").glob("*.py")
        path = next(word for word in words if word.startswith("localhost")).partition("/")[2]
        return any(f'"/{path}"' in file.read_text("utf-8") for file in routes)
    return words[:2] == ("nershift", "serve") and knows(VERBS, list(words[1:]))


EXCEPTIONS = (
    needs_the_network,
    runs_the_tests_or_makes_an_environment,
    takes_hours,
    writes_into_the_checkout,
    is_a_server,
)


def knows(verbs: dict[str, Any], words: list[str]) -> bool:
    """Whether a verb and all the options after it exist."""
    if words[0] not in verbs:
        return False
    options = {name for parameter in verbs[words[0]].params for name in (*parameter.opts, *parameter.secondary_opts)}
    return all(word.partition("=")[0] in options | {"--help"} for word in words if word.startswith("--"))


@pytest.fixture(scope="module")
def filled(make_corpus: Callable[..., Corpus], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents") / "filled"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as monkeypatch:
        sandbox.reduce(monkeypatch)
        sandbox.fill(folder, make_corpus)
    return folder


@pytest.fixture
def folder(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy for one page, which the process is in."""
    copy = tmp_path / "page"
    shutil.copytree(filled, copy, symlinks=True)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("NERSHIFT_DATA", str(copy / "catalog"))
    monkeypatch.setenv("NERSHIFT_ENCODERS", str(copy / "encoders"))
    monkeypatch.setenv("NERSHIFT_VECTORS", str(copy / "vectors"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "100")
    sandbox.reduce(monkeypatch)
    for registry in (ENCODERS, FORMATS, HEADS, METHODS, RECIPES):  # what a page registers is forgotten again
        list(registry)
        monkeypatch.setattr(registry, "_parts", dict(registry._parts))
    return copy


def test_only_five_kinds_of_command_are_not_run() -> None:
    assert len(EXCEPTIONS) == 5
    assert all(path.exists() for path in (ROOT / name for name in ELSEWHERE.values()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_and_python_of_a_page(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = [command.name for command in commands(page) if not works(command, monkeypatch)]
    assert failed == []
    if page.name not in ELSEWHERE:
        python = "\n".join(code for language, code in blocks(page) if language == "python")
        run_python(python, page.name)


def works(command: Command, monkeypatch: pytest.MonkeyPatch) -> bool:
    if any(reason(command.words) for reason in EXCEPTIONS):
        return True
    if command.words[0] == "python":
        return command.words[1] in EXAMPLES
    if "…" in command.words:
        return knows(VERBS, list(command.words[1:]))
    return command.words[0] == "nershift" and sandbox.run_ours(command, monkeypatch) == 0


def run_python(code: str, name: str) -> None:
    """One piece after the other, in one namespace; what goes to a hub, and names of the reader's own, stand aside."""
    lines = [line for line in code.splitlines() if "_hub(" not in line and "from_pretrained(" not in line]
    exec(compile("\n".join(lines), name, "exec"), {"__name__": "document", **READERS_OWN})


READERS_OWN = {"read": None, "write": None}  # the functions of a format that data.md leaves to the reader


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_within_sentences_name_what_is_there(page: Path) -> None:
    written = [words[1:] for words in inline(page) if re.fullmatch(r"[a-z]+", words[1])]
    assert [words for words in written if not knows(VERBS, words)] == []


@pytest.mark.parametrize("book", sorted((ROOT / "examples/notebooks").glob("*.ipynb")), ids=lambda book: book.stem)
def test_notebooks_run_and_have_the_output_of_a_run(book: Path, folder: Path) -> None:
    cells = json.loads(book.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1)), "stored out of order"
    outputs = [output for cell in code for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result", "display_data"}
    assert len(outputs) >= len(code) // 2
    assert str(Path(sys.prefix)) not in json.dumps(outputs), "no paths of a machine"
    exec("\n".join("".join(cell["source"]) for cell in code), {"__name__": "notebook"})
