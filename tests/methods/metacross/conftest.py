from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_runs import make_source, make_target, small

from nershift.data.corpus import Corpus
from tiny_encoders import make_encoder_folder

MakeCorpus = Callable[..., Corpus]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder_folder("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture
def settings(encoder: Path) -> dict[str, Any]:
    return small(encoder)


@pytest.fixture
def source(make_corpus: MakeCorpus) -> Corpus:
    return make_source(make_corpus)


@pytest.fixture
def target(make_corpus: MakeCorpus) -> Corpus:
    return make_target(make_corpus)
