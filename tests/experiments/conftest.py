from __future__ import annotations

from pathlib import Path

import pytest

from experiments.store import ROOT, ResultStore


@pytest.fixture(scope="session")
def committed(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    """The results of this repository; read once, not to be changed."""
    return ResultStore(ROOT, Path(tmp_path_factory.mktemp("nothing")))
