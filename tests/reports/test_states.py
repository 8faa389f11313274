from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from nershift.cli import app
from nershift.errors import CheckpointError
from nershift.reports.html import render
from nershift.reports.model import RunReport
from nershift.reports.states import FILE, _logistic, project, proxy_a_distance, state_map, states_of_run
from nershift.storage import save_tensors

RNG = np.random.default_rng(0)


def _clouds(apart: float, n: int = 120, size: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    shift = np.zeros(size)
    shift[2] = apart
    return rng.normal(size=(n, size)), rng.normal(size=(n, size)) + shift


def test_the_distance_grows_from_nothing_to_two() -> None:
    found = [proxy_a_distance(*_clouds(apart)) for apart in (0.0, 1.0, 2.0, 12.0)]
    assert found[0] < 0.25
    assert found == sorted(found)
    assert found[3] == pytest.approx(2.0, abs=0.02)
    # Two normal clouds d apart: the best linear rule errs with probability Φ(-d/2).
    assert found[2] == pytest.approx(2 * (1 - 2 * 0.1587), abs=0.2)
    assert proxy_a_distance(np.zeros((1, 3)), np.zeros((5, 3))) == 0.0


def test_the_classifier_stands_at_the_minimum_of_its_loss() -> None:
    x, y = RNG.normal(size=(40, 3)), (RNG.random(40) > 0.5).astype(float)
    weights = _logistic(x, y)
    design = np.concatenate([x, np.ones((40, 1))], 1)

    def loss(w: np.ndarray) -> float:
        z = design @ w
        return float((np.log1p(np.exp(z)) - y * z).sum() + 0.5 * (w**2).sum())

    for i in range(4):
        step = np.zeros(4)
        step[i] = 1e-4
        assert abs(loss(weights + step) - loss(weights - step)) / 2e-4 < 1e-5


def test_a_few_points_are_shown_by_their_principal_axes() -> None:
    states = RNG.normal(size=(12, 6)) * [5, 3, 0.01, 0.01, 0.01, 0.01]
    plane, name = project(states)
    assert name == "PCA"
    flat = states - states.mean(0)
    np.testing.assert_allclose(np.linalg.norm(plane, axis=1), np.linalg.norm(flat, axis=1), rtol=1e-2)
    assert project(RNG.normal(size=(5, 1)))[0].shape == (5, 2)


def test_without_scikit_learn_many_points_are_too(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert project(RNG.normal(size=(60, 4)))[1] == "PCA"


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    folders = []
    for name, apart in (("none", 6.0), ("grad", 0.0)):
        folder = tmp_path / name
        folder.mkdir()
        source, target = (torch.from_numpy(x).float() for x in _clouds(apart, 8))
        save_tensors(folder / FILE, {"source": source, "target": target}, {"adversary": name})
        folders.append(folder)
    return folders


def test_maps_of_runs_stand_in_one_page(runs: list[Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["states", *map(str, runs), "--html", str(page)])
    assert result.exit_code == 0, result.output
    assert "proxy A-distance" in result.output
    text = page.read_text(encoding="utf-8")
    assert text.count("A-distance ") >= 2
    assert "<svg" in text


def test_a_report_with_states_comes_back_from_json(runs: list[Path]) -> None:
    found = states_of_run(runs[1])
    assert found is not None
    assert (found.name, len(found.source), len(found.target)) == ("GRAD", 8, 8)
    report = RunReport("r", states=(found,))
    assert RunReport.from_dict(report.to_dict()) == report
    assert f"{found.a_distance:.2f}" in render(report)
    older = report.to_dict()
    del older["states"]
    assert RunReport.from_dict(older).states == ()


def test_runs_without_states_and_broken_files(tmp_path: Path, runs: list[Path]) -> None:
    assert states_of_run(tmp_path) is None
    result = CliRunner().invoke(app, ["states", str(tmp_path)])
    assert isinstance(result.exception, CheckpointError)
    save_tensors(runs[0] / FILE, {"source": torch.zeros(2, 2)}, {"adversary": "ad"})
    with pytest.raises(CheckpointError, match="target"):
        states_of_run(runs[0])


def test_the_picture_is_the_same_every_time() -> None:
    clouds = _clouds(3.0, 10)
    assert state_map("x", *clouds) == state_map("x", *clouds)
