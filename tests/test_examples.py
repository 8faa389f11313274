"""The examples run as they are, each in a process of its own, and print what they promise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What its output must match.
EXAMPLES = {
    "examples/own_labels.py": r"F1 \d\d\.\d, 95% interval [\d.]+ to [\d.]+\n(?s:.*)brand",
    "examples/other_domains.py": r"alone +F1 [\d.]+\nafter other domains +F1 [\d.]+\n.* by [\d.]+ F1 points",
    "examples/what_to_label.py": r"first +20 sentences +F1 [\d.]+\n(?:  \d\.\d\d  .*\n){3}with those +40 sentences",
    "examples/method_of_your_own.py": r"the nearest source is .*news(?s:.*)F1 [\d.]+",
    "examples/label_adapt_label.py": r"before: F1 [\d.]+ on 176 notes\nafter 12 (?s:.*)after 24 (?s:.*)types: .*drug",
}


def test_every_example_is_here() -> None:
    assert set(EXAMPLES) == {f"examples/{path.name}" for path in (ROOT / "examples").glob("*.py")}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, tmp_path: Path) -> None:
    if "adapt" in name:
        pytest.importorskip("uvicorn")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, str(ROOT / name)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(EXAMPLES[name], done.stdout), done.stdout
