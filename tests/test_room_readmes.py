"""Every paper's folder has a page; its links and the functions it names must exist.

A page names code as a file in backticks, followed by names of that file: `step.py` `MetaStage.draw`, `Tasks`. The file
may be a link. Without one it lies in the folder of the page.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

METHODS = Path(__file__).parents[1] / "src/nershift/methods"
PAGES = sorted(METHODS.glob("*/README.md"))
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(r"\[?`([\w./-]+\.py)`(?:\]\(([^)#\s]+)\))?((?:(?:,| and|:)? `[A-Za-z_][\w.]*(?:\(\))?`(?!\]))+)")
NAME = re.compile(r"`([A-Za-z_][\w.]*)(?:\(\))?`")


def names_of(path: Path) -> set[str]:
    """``function``, ``CONSTANT``, ``Class`` and ``Class.attribute`` of a module."""
    names = set[str]()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        own = _defined(node)
        names |= own
        if isinstance(node, ast.ClassDef):
            inside = {name for part in node.body for name in _defined(part)}
            inside |= {
                part.attr
                for part in ast.walk(node)
                if isinstance(part, ast.Attribute)
                and isinstance(part.ctx, ast.Store)
                and isinstance(part.value, ast.Name)
                and part.value.id == "self"
            }
            names |= {f"{node.name}.{name}" for name in inside}
    return names


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}


def references(text: str, folder: Path) -> list[tuple[Path, str]]:
    """The files that a page names, each with a name said to be in it."""
    return [
        (folder / (link or file), name)
        for file, link, names in CODE.findall(text)
        for name in NAME.findall(names)
        if not name.endswith(".py")
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_names_on_a_page_are_in_their_files(page: Path) -> None:
    named = references(page.read_text(encoding="utf-8"), page.parent)
    assert named, "the page names no function"
    missing = [f"{path.name}: {name}" for path, name in named if not path.exists() or name not in names_of(path)]
    assert missing == []


def test_references_are_found_in_all_their_forms(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("X: int = 1\nclass A:\n    y = 2\n    def f(self): self.z = 3\n", encoding="utf-8")
    text = "| [`one.py`](sub/one.py) `A.f`, `X` | `one.py` `A.z()` and `A.y`; [`a.py`](a.py), [`b.py`](b.py) `option` |"
    found = [(path.relative_to(tmp_path).as_posix(), name) for path, name in references(text, tmp_path)]
    assert found == [
        ("sub/one.py", "A.f"),
        ("sub/one.py", "X"),
        ("one.py", "A.z"),
        ("one.py", "A.y"),
        ("b.py", "option"),
    ]
    assert names_of(tmp_path / "one.py") == {"X", "A", "A.y", "A.f", "A.z"}
