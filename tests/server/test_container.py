"""The Dockerfile: parsed, and what its commands do tried with this machine's paths. No image is built."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "pyproject.toml").read_text("utf-8")


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, in order, with continued lines joined."""
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in joined.splitlines() if line.strip()]


def extras_of_the_package() -> set[str]:
    block = TEXT.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    return set(re.findall(r"^(\w+) = \[", block, re.MULTILINE))


def test_the_container_is_careful_and_its_commands_run(small_model: Path, tmp_path: Path) -> None:
    steps = instructions((ROOT / "Dockerfile").read_text("utf-8"))
    kinds = [kind for kind, _ in steps]
    assert kinds[0] == "FROM"
    assert set(kinds) <= {"FROM", "ENV", "RUN", "WORKDIR", "COPY", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK"} | {
        "ENTRYPOINT",
        "CMD",
    }
    said = dict(steps)
    assert said["USER"] not in ("root", "0")
    assert kinds.index("USER") < kinds.index("ENTRYPOINT")
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")]
    for _, copied in (step for step in steps if step[0] == "COPY"):
        for name in copied.split()[:-1]:
            assert (ROOT / name).exists()
            assert name.removeprefix("./") in kept
    for _, command in (step for step in steps if step[0] == "RUN"):
        for extras in re.findall(r"\.\[([\w,]+)\]", command):
            assert set(extras.split(",")) <= extras_of_the_package()
    torch = re.findall(r'"(torch[^"]*)"', TEXT)[0]
    assert any(f'"{torch}"' in command for kind, command in steps if kind == "RUN"), "the bounds of torch differ"
    check = json.loads(said["HEALTHCHECK"].partition("CMD ")[2])
    serve = [*json.loads(said["ENTRYPOINT"]), *json.loads(said["CMD"])]
    answers_like_the_container(serve, check, small_model, tmp_path)


def answers_like_the_container(serve: list[str], check: list[str], model: Path, folder: Path) -> None:
    """The entry point and the health check with this machine's paths and port; the model may not be written."""
    pytest.importorskip("uvicorn")
    places = {"/model": str(model), "/store": str(folder / "store"), "8000": "0"}
    command = [sys.executable, "-m", *(places.get(word, word) for word in serve), "--quiet"]
    before = {path: path.stat().st_mtime_ns for path in model.rglob("*")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            port = re.findall(r":(\d+)/", process.stderr.readline())[0]
            asked = [sys.executable, *(word.replace("8000", port) for word in check[1:])]
            assert subprocess.run(asked, check=False, timeout=60).returncode == 0
        finally:
            process.terminate()
    assert subprocess.run(asked, check=False, capture_output=True, timeout=60).returncode != 0, "the server is gone"
    assert {path: path.stat().st_mtime_ns for path in model.rglob("*")} == before
