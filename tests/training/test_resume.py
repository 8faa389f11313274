"""Runs that are killed at any moment end as if nothing had happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_twenty_times(tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / "killed_run.py"), str(tmp_path), "20", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=_environment(), check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    kills = json.loads((tmp_path / "kills.json").read_text())
    assert len(kills) == 20
    in_training = [k for k in kills if k["state"] and "train.safetensors" not in k["state"].split()]
    assert len(in_training) >= 15, "most kills came before or after training"
    assert {k["state"].split()[-1].split(".")[0] for k in in_training} == {"pretrain", "train"}
    in_checkpoint = [k for k in kills if any("safetensors" in name for name in k["writing"])]
    assert len(in_checkpoint) >= 5, "too few kills in the middle of writing weights"
    assert len({k["delay"] for k in kills}) == 20
    whole, cut = tmp_path / "whole", sorted(tmp_path.glob("cut*"))
    for file in ("model.safetensors", "model.json", "log.jsonl", "config.yaml", "predictions.jsonl"):
        for folder in cut:
            assert (folder / file).read_bytes() == (whole / file).read_bytes(), f"{folder.name}/{file}"
    expected = _metrics(whole)
    assert [_metrics(folder) for folder in cut] == [expected] * len(cut)
    for stage in expected["phases"].values():  # else later kills could not show in the weights kept
        assert stage["best_step"] > 0.6 * stage["steps"]
    names = sorted(p.name for p in whole.iterdir())
    assert all(sorted(p.name for p in folder.iterdir()) == names for folder in cut)


def _metrics(folder: Path) -> dict[str, Any]:
    metrics: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    del metrics["seconds"]
    return metrics
