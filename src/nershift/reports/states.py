"""Shared states of source and target: a picture of how they mix, and a number for how separable they are.

The number is the proxy A-distance, ``2 (1 - 2 ε)`` with ``ε`` the held-out error of a linear classifier: 0 when
source and target cannot be separated, 2 when they always can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nershift.errors import CheckpointError
from nershift.storage import load_tensors

FILE = "states.safetensors"
_RIDGE = 1.0
_SPLITS = 5

Points = tuple[tuple[float, float], ...]
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class StateMap:
    """Sentences of source and target on a plane, and how far apart they are in the full space."""

    name: str
    source: Points
    target: Points
    a_distance: float
    picture: str = "PCA"  # or t-SNE

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> StateMap:
        source, target = (tuple((x, y) for x, y in row[k]) for k in ("source", "target"))
        return cls(row["name"], source, target, row["a_distance"], row["picture"])


def states_of_run(folder: str | Path, name: str = "") -> StateMap | None:
    """The map of a finished run, or None if its method keeps no shared states."""
    path = Path(folder) / FILE
    if not path.exists():
        return None
    tensors, meta = load_tensors(path)
    try:
        source, target = (tensors[k].double().numpy() for k in ("source", "target"))
        name = name or {"grad": "GRAD", "ad": "AD", "none": "no adversary"}[meta["adversary"]]
    except KeyError as missing:
        raise CheckpointError(f"there is no {missing} in it", place=str(path), fix="train the run again") from None
    return state_map(name, source, target)


def state_map(name: str, source: Matrix, target: Matrix) -> StateMap:
    """From states ``[N, H]`` and ``[M, H]``."""
    flat, picture = project(np.concatenate([source, target]))
    points = [(round(float(x), 3), round(float(y), 3)) for x, y in flat]
    return StateMap(
        name, tuple(points[: len(source)]), tuple(points[len(source) :]), proxy_a_distance(source, target), picture
    )


def project(states: Matrix) -> tuple[Matrix, str]:
    """On a plane: t-SNE where scikit-learn is installed and there are enough points, else PCA."""
    plane = _pca(states)
    if len(states) < 20:
        return plane, "PCA"
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        return plane, "PCA"
    start = 1e-4 * plane / max(float(plane[:, 0].std()), 1e-12)
    tsne = TSNE(2, perplexity=min(30.0, len(states) / 4), init=start.astype(np.float32), random_state=0)
    return np.asarray(tsne.fit_transform(states), dtype=np.float64), "t-SNE"


def _pca(states: Matrix) -> Matrix:
    centred = states - states.mean(0)
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    plane = (left * scale)[:, :2]
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))


def proxy_a_distance(source: Matrix, target: Matrix, seed: int = 0) -> float:
    """Mean over random splits in halves, one to train on and one to test on; equally many of source and target."""
    rng = np.random.default_rng(seed)
    size = min(len(source), len(target))
    if size < 2:
        return 0.0
    errors = []
    for _ in range(_SPLITS):
        a, b = (x[rng.permutation(len(x))[:size]] for x in (source, target))
        half = size // 2
        x, y = np.concatenate([a[:half], b[:half]]), np.repeat([1.0, 0.0], half)
        held, truth = np.concatenate([a[half:], b[half:]]), np.repeat([True, False], size - half)
        middle, spread = x.mean(0), x.std(0) + 1e-8
        weights = _logistic((x - middle) / spread, y)
        scores = _with_one((held - middle) / spread) @ weights
        errors.append(np.where(scores == 0, 0.5, (scores > 0) != truth).mean())
    return max(0.0, 2 * (1 - 2 * float(np.mean(errors))))


def _with_one(x: Matrix) -> Matrix:
    return np.concatenate([x, np.ones((len(x), 1))], 1)


def _logistic(x: Matrix, y: Matrix) -> Matrix:
    """Ridge logistic regression by Newton's method; the last weight is the bias."""
    x = _with_one(x)
    weights = np.zeros(x.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        slope = x.T @ (p - y) + _RIDGE * weights
        curve = (x * (p * (1 - p))[:, None]).T @ x + _RIDGE * np.eye(x.shape[1])
        step = np.linalg.solve(curve, slope)
        weights = weights - step
        if np.abs(step).max() < 1e-8:
            break
    return weights
