"""Results are found by hashes of names that never change, whatever settings and methods are called now."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest

from experiments import spec_names
from experiments.cells import Cell, key_of
from experiments.papers import TABLES
from nershift.config import Config
from nershift.config import current_names as names_nershift_accepts
from nershift.errors import ConfigError
from nershift.methods import METHODS

OLD = {
    "method": "datnet",
    "target": "re3d",
    "sources": [],
    "seed": 1,
    "config": {
        "decoder": {"kind": "crf"},
        "encoder": {"words": {"drop": 0.05}},
        "train": {"swap": 0.3, "lr": 0.1},
        "options": {"decoders": "shared", "source_share": 0.0},
    },
    "shots": None,
    "ratio": None,
    "labels": "own",
}


def _renamed(cls: type, block: str = "") -> Iterator[tuple[str, str, str]]:
    """(block, old name, name now) of every setting that nershift still accepts under an old name."""
    for field in dataclasses.fields(cls):
        first = field.metadata.get("was") or field.name
        if first != field.name:
            yield block, first, field.name
        kind = get_type_hints(cls)[field.name]
        if dataclasses.is_dataclass(kind):
            yield from _renamed(kind, f"{block}.{first}".strip("."))  # type: ignore[arg-type]


def test_a_key_is_that_of_the_first_results_and_survives_renaming() -> None:
    assert key_of(OLD) == "ba3c26d13312"
    now = spec_names.current_names(OLD)
    assert now["config"]["head"] == {"kind": "crf"}
    assert now["config"]["options"] == {"heads": "shared", "source_share": 0.0}
    assert key_of(now) == key_of(OLD) == Cell.of(OLD).key == Cell.of(now).key
    assert spec_names.first_names(now) == OLD == spec_names.first_names(OLD)
    assert spec_names.current_names(now) == now


def test_options_go_by_their_method() -> None:
    def now(method: str) -> dict[str, Any]:
        return dict(spec_names.current_names({"method": method, "config": {"options": {"weight": 0.1}}}))

    assert now("auto-datnet")["config"] == {"options": {"adversary_weight": 0.1}}
    assert now("wpz") == {"method": "protonet", "config": {"options": {"weight": 0.1}}}


def test_a_setting_under_two_names_is_refused() -> None:
    with pytest.raises(ConfigError, match="two names"):
        spec_names.first_names({"method": "m", "config": {"train": {"swap": 0.1, "mention_replacement": 0.2}}})


def test_every_renamed_setting_is_listed() -> None:
    listed = {(block, *pair) for block, names in spec_names.SETTINGS.items() for pair in names.items()}
    found = set(_renamed(Config))
    assert found
    assert found <= listed, "add these to experiments/spec_names.py"
    for name, method in METHODS.items():
        options = spec_names.OPTIONS.get(spec_names.family(name), {}).items()
        assert {(first, now) for _, first, now in _renamed(method.Options)} <= set(options), name


def test_every_renamed_method_is_listed() -> None:
    assert all(METHODS.canonical(first) == now for first, now in spec_names.METHODS.items())


def test_tables_use_todays_names() -> None:
    seen: set[str] = set()
    for table in TABLES.values():
        for cell in table.cells((1,)):
            spec = cell.spec()
            assert spec_names.current_names(spec)["config"] == spec["config"], table.name
            assert METHODS[cell.method].name == cell.method
            if repr(cell.config) not in seen:
                seen.add(repr(cell.config))
                _accepted(cell)


def _accepted(cell: Cell) -> None:
    config: dict[str, Any] = dict(cell.config)
    assert names_nershift_accepts(Config, config) == config
    options = config.get("options", {})
    assert names_nershift_accepts(METHODS[cell.method].Options, options) == options
