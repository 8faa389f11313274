"""The oldest versions that pyproject.toml allows, as a list for `pip install -r`: ``python tools/lower_bounds.py``.

Torch is left out: its oldest version is large and has jobs of its own in the workflow of the tests.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomllib  # Python 3.11 or later

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[\w-]+)(?P<extras>\[[\w,]+\])?(?:>=(?P<oldest>[\w.]+))?[^;]*(?P<marker>;.*)?")


def lower_bounds(project: dict[str, Any], without: tuple[str, ...] = ("torch", "nershift")) -> Iterator[str]:
    """Every requirement of a ``[project]`` table, pinned to its lower bound; one without a bound stays free.

    Example:
        >>> rows = ["torch>=2.8", "ray[data]>=2.40,<3; python_version < '3.13'", "types-x"]
        >>> list(lower_bounds({"dependencies": rows}))
        ["ray[data]==2.40; python_version < '3.13'", 'types-x']
    """
    extras = project.get("optional-dependencies", {})
    listed = [*project["dependencies"], *(row for rows in extras.values() for row in rows)]
    for requirement in dict.fromkeys(listed):
        found = REQUIREMENT.fullmatch(requirement)
        if found is None:
            raise SystemExit(f"pyproject.toml: cannot read the requirement '{requirement}'")
        if found["name"] not in without:
            pin = f"=={found['oldest']}" if found["oldest"] else ""
            yield f"{found['name']}{found['extras'] or ''}{pin}{found['marker'] or ''}"


if __name__ == "__main__":
    sys.stdout.writelines(f"{row}\n" for row in lower_bounds(tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]))
