"""Results are found by hashes of names that never change, whatever settings and methods are called now."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_type_hints

import pytest

from experiments import spec_names
from experiments.cells import Cell, key_of
from experiments.papers import TABLES
from nershift.config import Config
from nershift.config import current_names as names_nershift_accepts
from nershift.errors import ConfigError
from nershift.methods import METHODS
from nershift.run import resolve

OLD = {
    "method": "datnet",
    "target": "re3d",
    "sources": [],
    "seed": 1,
    "config": {
        "decoder": {"kind": "crf", "start": "carried"},
        "encoder": {"words": {"drop": 0.05}},
        "train": {"swap": 0.3, "lr": 0.1},
        "options": {"decoders": "shared", "source_share": 0.0, "same": {"geo-loc": "LOC"}},
    },
    "shots": None,
    "ratio": None,
    "labels": "own",
}


def _fields(cls: type, block: str = "") -> Iterator[tuple[str, dataclasses.Field[Any]]]:
    """First path and field of every setting."""
    for field in dataclasses.fields(cls):
        path = f"{block}.{field.metadata.get('was') or field.name}".strip(".")
        yield path, field
        kind = get_type_hints(cls)[field.name]
        if dataclasses.is_dataclass(kind):
            yield from _fields(kind, path)  # type: ignore[arg-type]


def _renamed(cls: type, block: str = "") -> Iterator[tuple[str, str]]:
    """First path and path now of every setting that nershift still accepts under an old name."""
    for path, field in _fields(cls, block):
        if field.metadata.get("was"):
            first, _, _ = path.rpartition(".")
            now = spec_names.current_names({"method": "", "config": _nested(first)})["config"] if first else {}
            yield path, f"{_path(now)}.{field.name}".strip(".")


def _nested(path: str) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    return {first: _nested(rest) if rest else {}}


def _path(nested: dict[str, Any]) -> str:
    return ".".join((*nested, *filter(None, map(_path, nested.values()))))


def test_a_key_is_that_of_the_first_results_and_survives_renaming() -> None:
    assert key_of(OLD) == "2d89ca4e6c4b"
    now = spec_names.current_names(OLD)
    assert now["config"]["head"] == {"kind": "crf", "from_source": True, "same": {"geo-loc": "LOC"}}
    assert now["config"]["options"] == {"heads": "shared", "source_share": 0.0}
    assert key_of(now) == key_of(OLD) == Cell.of(OLD).key == Cell.of(now).key
    assert spec_names.first_names(now) == OLD == spec_names.first_names(OLD)
    assert spec_names.current_names(now) == now


def test_defaults_of_the_first_results_go_without_saying() -> None:
    plain = Cell("t", "finetune", "re3d", ("wikigold",), 1, {"head": {"kind": "crf"}})
    said = plain.with_config({"head": {"from_source": False}, "preset": "paper", "selection": "dev"})
    kept = plain.with_config({"head": {"from_source": True}})
    assert plain.key == said.key != kept.key
    assert (
        plain.settings["head"] == said.settings["head"] == {"kind": "crf", "from_source": False, "new_rows": "random"}
    )
    assert kept.settings["head"]["from_source"] is True
    empty = Cell("t", "finetune", "re3d", (), 1)
    assert empty.key == empty.with_config(spec_names.FIRST_DEFAULTS).key


def test_a_cell_means_what_it_meant_when_defaults_were_others() -> None:
    config = resolve("finetune", Cell("t", "finetune", "re3d", (), 1).settings)
    assert (config.preset, config.train.epochs, config.train.batch_size) == ("paper", 30, 32)
    few = Cell("t", "finetune", "re3d", (), 1, shots=10)
    assert (few.settings["selection"], replace(few, shots=None).settings["selection"]) == ("dev", "auto")
    # A length in updates did not end that in epochs: the shorter one counted.
    short = {"preset": "crosslm", "train": {"updates": 1500}}
    stage = resolve("finetune", Cell("t", "finetune", "re3d", (), 1, short).settings).train
    assert (stage.updates, stage.epochs, stage.batch_size) == (1500, 100, 30)
    laner = resolve("laner", Cell("t", "laner", "re3d", (), 1).settings)
    assert (laner.options["new_rows"], laner.train.epochs, laner.pretrain.epochs) == ("nearest", 100, 2)
    direct = Cell("t", "direct", "re3d", (), 1, {"pretrain": {"epochs": 2}}).settings["pretrain"]
    assert (direct["epochs"], direct["updates"]) == (2, 3000)


def test_todays_defaults_are_asked_for_by_name() -> None:
    today = Cell("t", "finetune", "re3d", (), 1, {"preset": "default"}, shots=10)
    assert today.settings == {"preset": "default"}
    said = today.with_config(spec_names.FIRST_DEFAULTS | {"preset": "default"})
    assert len({today.key, said.key, replace(today, config={}).key}) == 3


def test_how_a_targets_head_starts_is_no_matter_of_pretraining() -> None:
    cell = Cell("t", "finetune", "re3d", ("wikigold",), 1, {"preset": "default"}, joint=False)
    for over in ({"head": {"new_rows": "names"}}, {"selection": "last"}, {"train": {"updates": 9}}):
        assert cell.with_config(over).key != cell.key
        left = {k: v for k, v in over.items() if k == "head"}
        assert cell.with_config(over).pretraining == cell.with_config({**left}).pretraining
    assert cell.with_config({"pretrain": {"updates": 9}}).pretraining != cell.pretraining


def test_options_go_by_their_method() -> None:
    def now(method: str) -> dict[str, Any]:
        return dict(spec_names.current_names({"method": method, "config": {"options": {"weight": 0.1}}}))

    assert now("auto-datnet")["config"] == {"options": {"adversary_weight": 0.1}}
    assert now("wpz") == {"method": "protonet", "config": {"options": {"weight": 0.1}}}


def test_a_setting_under_two_names_is_refused() -> None:
    with pytest.raises(ConfigError, match="two names"):
        spec_names.first_names({"method": "m", "config": {"train": {"swap": 0.1, "mention_replacement": 0.2}}})


def test_every_renamed_setting_is_listed() -> None:
    renamed = dict(_renamed(Config))
    assert renamed
    assert renamed.items() <= spec_names.SETTINGS.items(), "add what is missing to experiments/spec_names.py"
    for name, method in METHODS.items():
        options = spec_names.OPTIONS.get(spec_names.family(name), {}).items()
        assert dict(_renamed(method.Options, "options")).items() <= options, name


def test_every_renamed_value_is_listed() -> None:
    values = {path: field.metadata["old_values"] for path, field in _fields(Config) if field.metadata.get("old_values")}
    assert values.items() <= spec_names.VALUES.items()


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
    config = cell.settings
    assert names_nershift_accepts(Config, config) == config
    options = config.get("options", {})
    assert names_nershift_accepts(METHODS[cell.method].Options, options) == options
