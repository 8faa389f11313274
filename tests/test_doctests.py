"""Every example in a docstring runs, in a folder with two small corpora and the runs that examples start from."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path

import pytest

import experiments
import nershift
from nershift.auto.recipe import RECIPES
from nershift.data.corpus import Corpus
from nershift.data.formats import FORMATS, write_corpus
from nershift.encoders.base import ENCODERS
from nershift.heads.base import HEADS
from nershift.methods import METHODS

# The GPU kernels cannot be imported without triton.
MODULES = sorted(
    m.name
    for package in (nershift, experiments)
    for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not m.name.endswith(".on_gpu")
)


@pytest.fixture(scope="session")
def examples(make_corpus: Callable[..., Corpus], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``corpora/news``, ``corpora/clinic``, and ``runs/news-1`` and ``runs/news-2``, which differ by seed."""
    folder = tmp_path_factory.mktemp("examples")
    news = make_corpus("news", test=60)
    write_corpus(folder / "corpora/news", news)
    write_corpus(folder / "corpora/clinic", make_corpus("clinic"))
    small = {
        "device": "cpu",
        "encoder": {"words": {"size": 12}, "chars": {"filters": 8}, "recurrent": {"size": 10}, "dropout": 0.1},
        "train": {"epochs": 12, "batch_size": 8, "lr": 0.02},
    }
    for seed in (1, 2):
        out = folder / f"runs/news-{seed}"
        nershift.transfer("target_only", news, out=out, config=small, seed=seed, quiet=True, report=False)
    return folder


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str, examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(examples)
    for registry in (ENCODERS, FORMATS, HEADS, METHODS, RECIPES):  # what examples register is forgotten again
        list(registry)
        monkeypatch.setattr(registry, "_parts", dict(registry._parts))
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_public_name_is_listed_documented_and_has_an_example() -> None:
    assert set(nershift.__all__) <= set(dir(nershift))
    assert len(set(nershift.__all__)) == len(nershift.__all__) == len(nershift._HOMES)
    for name in nershift.__all__:
        text = inspect.getdoc(getattr(nershift, name)) or ""
        assert ">>>" in text, f"nershift.{name} has no example"


def test_static_and_lazy_names_agree() -> None:
    """What type checkers see is what ``__getattr__`` finds."""
    source = inspect.getsource(nershift)
    block = source[source.index("if TYPE_CHECKING:") : source.index("def __getattr__")]
    seen: dict[str, object] = {}
    exec(block.replace("if TYPE_CHECKING:", "if True:"), seen)
    assert {name: getattr(nershift, name) for name in nershift.__all__} == {
        name: value for name, value in seen.items() if name != "__builtins__"
    }
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        nershift.nothing  # noqa: B018
