"""What surrounds the package: metadata, citation, workflows, hooks, the container. What cannot run here is parsed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from nershift import __version__
from nershift.methods import METHODS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "pyproject.toml").read_text("utf-8")
EXTRAS = set(re.findall(r"^(\w+) = \[", TEXT.partition("[project.optional-dependencies]")[2].partition("\n[")[0], re.M))


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def test_metadata() -> None:
    assert f'version = "{__version__}"' in TEXT
    assert f"\n## [{__version__}] – " in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert 'Source = "https://github.com/nershift/nershift"' in TEXT
    assert {f"3.{minor}" for minor in (10, 11, 12, 13)} <= set(re.findall(r"Python :: (3\.\d+)", TEXT))
    assert re.search(r'"torch>=[\d.]+,<[\d.]+"', TEXT), "torch has both bounds"


def test_the_citation_names_the_five_papers() -> None:
    cited = read("CITATION.cff")
    assert (cited["cff-version"], cited["version"], cited["license"]) == ("1.2.0", __version__, "MIT")
    assert len(cited["references"]) == 5
    for reference in cited["references"]:
        assert {"type", "title", "authors", "year", "notes"} <= set(reference)
        assert all(set(author) == {"given-names", "family-names"} for author in reference["authors"])
        named = re.findall(r"[a-z-]+", reference["notes"].partition(";")[0].removeprefix("methods "))
        assert all(name in METHODS for name in named), named
        folder = ROOT / "src/nershift/methods" / named[0].partition("-")[0]
        first = (folder / "README.md").read_text("utf-8").splitlines()[2]
        assert reference["authors"][0]["family-names"] in first
        assert str(reference["year"]) in first


def test_templates_and_hooks_are_well_formed() -> None:
    for name in ("bug.yml", "wish.yml"):
        form = read(f".github/ISSUE_TEMPLATE/{name}")
        assert {"name", "description", "body"} <= set(form)
        assert all({"type", "attributes"} <= set(part) for part in form["body"])
    hooks = [hook for repository in read(".pre-commit-config.yaml")["repos"] for hook in repository["hooks"]]
    assert {hook["id"] for hook in hooks} >= {"ruff-check", "ruff-format", "mypy"}
    assert all((ROOT / word).exists() for hook in hooks for word in shlex.split(hook["entry"]) if word.endswith(".py"))


@pytest.mark.parametrize("name", ["tests", "docs", "release"])
def test_workflows_run_what_is_there(name: str) -> None:
    workflow = read(f".github/workflows/{name}.yml")
    assert workflow["permissions"] == {"contents": "read"}, "jobs ask for more themselves"
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for job in workflow["jobs"].values():
        assert job.get("needs", next(iter(workflow["jobs"]))) in workflow["jobs"]
        for step in job["steps"]:
            command = step.get("run", "")
            assert ("uses" in step) != bool(command)
            assert set(re.findall(r"make ([\w-]+)", command)) <= targets
            for extras in re.findall(r"\.\[([\w,]+)\]", command):
                assert set(extras.split(",")) <= EXTRAS


def test_the_matrix_has_the_bounds_of_the_package() -> None:
    jobs = read(".github/workflows/tests.yml")["jobs"]
    matrix = jobs["torch"]["strategy"]["matrix"]
    oldest, newest = re.findall(r'"torch>=([\d.]+),<([\d.]+)"', TEXT)[0]
    assert matrix["torch"][0] == f"{oldest}.0"
    assert matrix["torch"][-1].startswith(f"2.{int(newest.partition('.')[2]) - 1}.")
    assert matrix["transformers"][0].startswith(re.findall(r'"transformers>=([\d.]+)"', TEXT)[0])
    assert jobs["newest"]["strategy"]["matrix"]["python"] == ["3.10", "3.11", "3.12", "3.13"]
