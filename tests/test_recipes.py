"""The four examples of CONTRIBUTING.md work as they stand, together in one run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from nershift.data.corpus import Corpus
from nershift.data.formats import write_corpus

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
USE = """
import nershift
from pathlib import Path

source, target = nershift.read_corpus("news"), nershift.read_corpus("clinic")
stage = {"lr": 0.05, "batch_size": 8, "epochs": 8}
settings = {"device": "cpu", "encoder": {"kind": "hashed", "options": {"size": 12}}, "head": {"kind": "per_token"}}
run = nershift.transfer(
    "first_source", target, [source], out="run", config=settings | {"pretrain": stage, "train": stage}, quiet=True
)
assert run.f1 > 0.5, run.f1
assert any(entity.label == "drug" for entity in run.tagger()("pt Okafor given 20mg zolpirex in Leeds"))
nershift.write_corpus("out", target, "brackets")
assert nershift.read_corpus("out").train == target.train
"""


def test_recipes(make_corpus: Callable[..., Corpus], tmp_path: Path) -> None:
    """In a process of its own, since the examples stay registered."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    for name in ("news", "clinic"):
        write_corpus(tmp_path / name, make_corpus(name))
    for number, block in enumerate(blocks):
        (tmp_path / f"recipe_{number}.py").write_text(block, encoding="utf-8")
    script = "".join(f"import recipe_{number}\n" for number in range(len(blocks))) + USE
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
