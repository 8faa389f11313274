"""The documents and notebooks link to files and headings that are there, and name modules that are there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src/nershift/methods").glob("*/README.md")),
    *sorted((ROOT / "experiments").rglob("README.md")),
    *sorted((ROOT / "examples").rglob("*.ipynb")),
]
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")


def anchors(page: Path) -> set[str]:
    """The headings of a page as a code host links to them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def text_of(page: Path) -> str:
    """What is written on a page; of a notebook, its cells of text."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    missing = []
    for file, anchor in LINK.findall(text_of(page)):
        target = page.parent / file if file else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            missing.append(f"{file}#{anchor}" if anchor else file)
    assert missing == []


def test_anchors_are_those_of_a_code_host(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# A page\n\n## What's `new`, really?\n", encoding="utf-8")
    assert anchors(tmp_path / "page.md") == {"a-page", "whats-new-really"}


def test_the_picture_of_the_code_names_what_is_there() -> None:
    """`docs/architecture.md`: files by path, and in its table the modules of each package."""
    text, package = (ROOT / "docs/architecture.md").read_text(encoding="utf-8"), ROOT / "src/nershift"
    missing = [name for name in re.findall(r"`([\w/]+\.(?:py|cu))`", text) if not list(package.rglob(name))]
    for row in re.findall(r"^\| `(\w+)` \|(.*)\|$", text, re.MULTILINE):
        names = re.findall(r"`([a-z]\w*)/?`", row[1])
        missing += [f"{row[0]}/{name}" for name in names if not list((package / row[0]).glob(f"{name}*"))]
    assert missing == []


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="not a checkout")
def test_the_picture_of_the_code_names_every_folder_of_the_checkout() -> None:
    """A folder that it does not name was left behind by somebody."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folders = {path.split("/")[0] for path in listed.splitlines() if "/" in path}
    assert [name for name in sorted(folders) if not name.startswith(".") and f"`{name}/" not in text] == ["src"]
