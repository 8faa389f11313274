from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import experiments
import nershift

# The GPU kernels cannot be imported without triton.
MODULES = sorted(
    m.name
    for package in (nershift, experiments)
    for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not m.name.endswith(".on_gpu")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_examples_were_found() -> None:
    finder = doctest.DocTestFinder()
    found = [t for name in MODULES for t in finder.find(importlib.import_module(name)) if t.examples]
    assert len(found) > 20
