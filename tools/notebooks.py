"""Run the notebooks and store what they print: ``python tools/notebooks.py [NAME …]``.

Each runs in an empty folder, with the package that is installed here. Times and warnings of other packages, which name
folders of this machine, are not stored: two runs of the same code give the same file.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"


def execute(path: Path) -> None:
    """Replace the stored output by that of a run; an error in a cell stops here and leaves the file as it was."""
    book = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory(prefix="nershift-notebook-") as folder:
        NotebookClient(book, timeout=600, kernel_name="python3", record_timing=False).execute(cwd=folder)
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    book.metadata = nbformat.from_dict({"kernelspec": {"display_name": "Python 3", "name": "python3"}})
    nbformat.write(book, path)


if __name__ == "__main__":
    wanted = sys.argv[1:] or [path.stem for path in sorted(FOLDER.glob("*.ipynb"))]
    for name in wanted:
        execute(FOLDER / f"{name}.ipynb")
        sys.stdout.write(f"{FOLDER / name}.ipynb\n")
