"""The tools around the package: what they read from pyproject.toml, and the examples in their docstrings."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer

from nershift.cli import app

ROOT = Path(__file__).parents[2]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["links", "papers", "contents", "which"])
def test_examples_in_docstrings_of_the_site(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"website.{name}")).failed == 0


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib")
def test_every_requirement_has_a_lower_bound_and_is_pinned_to_it() -> None:
    import tomllib

    bounds = tool("lower_bounds")
    assert doctest.testmod(bounds).failed == 0
    project = tomllib.loads(bounds.PYPROJECT.read_text("utf-8"))["project"]
    rows = list(bounds.lower_bounds(project))
    assert [row for row in rows if not re.match(r"[\w-]+(\[\w+\])?==\d", row)] == []
    assert not any(row.startswith(("torch=", "nershift")) for row in rows)
    assert f"numpy=={re.findall(r'numpy>=([0-9.]+)', bounds.PYPROJECT.read_text('utf-8'))[0]}" in rows


def test_the_release_is_tried_with_commands_that_exist() -> None:
    verbs: dict[str, object] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert doctest.testmod(tool("release_check")).failed == 0
    quickstart = tool("release_check").QUICKSTART
    assert all(command[0] in verbs or command == ("--version",) for command in quickstart)
    assert "predict" in {command[0] for command in quickstart}
