"""Build the site: ``python -m website.build [FOLDER]``; the default folder is ``build/site``.

Every page is copied to where it stands on the site, with its links made to fit; then Sphinx reads them. Sphinx and MyST
read Markdown as code hosts do (CommonMark, the same anchors), so one file serves both. Warnings are errors.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

from website import notebook, papers, reference
from website.contents import CONTENTS, PAPERS, REPOSITORY, ROOT, notebooks, sources
from website.links import moved

CONF = f"""
import nershift

project, author = "nershift", "The nershift developers"
copyright = author
version = release = nershift.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme, html_title, html_show_sphinx = "furo", "nershift " + release, False
html_theme_options = {{"source_repository": "{REPOSITORY}/", "footer_icons": []}}
html_copy_source, smartquotes = False, False  # `--target` in a sentence keeps its hyphens
myst_heading_anchors = 4
autodoc_typehints, autodoc_member_order = "description", "bysource"
python_use_unqualified_type_names = True
suppress_warnings = ["myst.header", "misc.highlighting_failure"]  # our pages begin below other headings; `…` in code
"""


def pages() -> dict[str, str]:
    """Every page of the site: its place and its Markdown."""
    places = sources()
    out = {}
    for path, place in places.items():
        file = ROOT / path
        text = notebook.as_markdown(file) if path.endswith(".ipynb") else file.read_text(encoding="utf-8")
        out[place] = moved(text, path, place, places, REPOSITORY)
    for paper in PAPERS:
        found = papers.findings(paper).replace("](#", "](findings.md#")
        place = f"papers/{paper}.md"
        link = f"[our numbers](../experiments/{paper}/README.md)"
        below = f"{found}\n\nAll tables, ours beside the paper's: {link}.\n"
        out[place] += "\n" + moved(below, papers.FINDINGS, place, places, REPOSITORY)
    out["api.md"] = reference.page()
    out["index.md"] += "\n" + "\n".join(_toctree(*entry) for entry in CONTENTS.items())
    return out


def _toctree(caption: str, names: tuple[str, ...]) -> str:
    lines = "\n".join(names)
    return f"```{{toctree}}\n:caption: {caption}\n:hidden:\n:maxdepth: 2\n\n{lines}\n```\n"


def write(folder: Path) -> None:
    """All that Sphinx reads."""
    shutil.rmtree(folder, ignore_errors=True)
    for place, text in pages().items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "pictures", folder / "pictures")
    for book in notebooks():
        notebook.write_pictures(book, folder / "notebooks")
    (folder / "conf.py").write_text(CONF, encoding="utf-8")


def build(folder: Path) -> int:
    """Sphinx's exit code: 0 when there was not a single warning."""
    source = folder.with_name(f"{folder.name}-source")
    write(source)
    return build_main(["-b", "html", "-W", "--keep-going", "-q", "-E", str(source), str(folder)])


if __name__ == "__main__":
    target = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build" / "site"
    code = build(target)
    if code == 0:
        sys.stdout.write(f"{target / 'index.html'}\n")
    sys.exit(code)
