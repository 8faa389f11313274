"""A notebook as a page: its text, its code and the output that is stored in it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def cells(path: Path) -> list[Mapping[str, Any]]:
    read: list[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return read


def as_markdown(path: Path) -> str:
    """The notebook as Markdown; pictures are the files that `write_pictures` writes."""
    return (
        "\n\n".join(part for number, cell in enumerate(cells(path)) for part in _cell(path.stem, number, cell)) + "\n"
    )


def write_pictures(path: Path, folder: Path) -> None:
    for number, cell in enumerate(cells(path)):
        for place, png in _pictures(path.stem, number, cell):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / place).write_bytes(png)


def _cell(name: str, number: int, cell: Mapping[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```{'console' if source.startswith('!') else 'python'}\n{source}\n```"
    text = "".join(_text(output) for output in cell["outputs"]).rstrip()
    if text:
        yield f"```text\n{text}\n```"
    for place, _ in _pictures(name, number, cell):
        yield f"![output of the cell above]({place})"


def _text(output: Mapping[str, Any]) -> str:
    """What a cell printed, or its last value, without colours."""
    data = output.get("data", {})
    written = output.get("text") or ([] if "image/png" in data else data.get("text/plain", []))
    return _COLOUR.sub("", "".join(written))


def _pictures(name: str, number: int, cell: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    drawn = [output["data"]["image/png"] for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    for count, picture in enumerate(drawn):
        yield f"{name}-{number}-{count}.png", base64.b64decode(picture)
