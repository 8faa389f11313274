from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nershift.cli import app
from nershift.cli.serve_demo import SAMPLES, cache_folder, demo_run
from nershift.errors import ConfigError

pytest.importorskip("uvicorn")


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_cache_is_where_the_system_wants_it(platform: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    expected = {
        "linux": tmp_path / ".cache/nershift",
        "darwin": tmp_path / "Library/Caches/nershift",
        "win32": tmp_path / "local/nershift",
    }
    assert cache_folder({"LOCALAPPDATA": str(tmp_path / "local")}, platform) == expected[platform]


def test_the_demo_serves_a_tagger_and_texts(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = demo_run(tiny | {"train": {"epochs": 1, "batch_size": 64}})
    assert folder.is_relative_to(tmp_path)
    made = (folder / "metrics.json").stat().st_mtime_ns
    process = subprocess.Popen(
        [sys.executable, "-m", "nershift", "serve", "--demo", "--port", "0", "--quiet"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stderr is not None
        address = re.match(r"http://127.0.0.1:\d+/", process.stderr.readline())
        assert address, "the model was trained again, or the server did not start"
        with urllib.request.urlopen(f"{address[0]}files", timeout=20) as answer:
            files = json.load(answer)["files"]
        assert [file["name"] for file in files] == [f"{domain}.raw" for domain in SAMPLES]
        assert all(file["sentences"] == 24 and not file["labelled"] for file in files)
        with urllib.request.urlopen(address[0], timeout=20) as answer:
            assert b"<title>" in answer.read()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in (0, -signal.SIGTERM)
    assert (folder / "metrics.json").stat().st_mtime_ns == made


@pytest.mark.parametrize("given", [[], ["--demo", "--model", "runs/a"]])
def test_a_model_or_the_demo(given: list[str]) -> None:
    assert isinstance(CliRunner().invoke(app, ["serve", *given]).exception, ConfigError)
