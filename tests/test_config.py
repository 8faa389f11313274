from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from nershift.config import (
    Config,
    TrainConfig,
    build,
    merge,
    parse_settings,
    read_yaml,
    to_dict,
    to_yaml,
)
from nershift.errors import ConfigError


def test_yaml_round_trip_gives_the_same_config() -> None:
    config = build(
        Config,
        {
            "seed": 7,
            "encoder": {"chars": {"widths": [3]}, "words": {"vectors": "wörter.txt"}},
            "train": {"encoder_lr": "2e-5", "optimizer": "sgd"},
            "options": {"alpha": 0.5, "list": [1, 2]},
        },
    )
    again = build(Config, yaml.safe_load(to_yaml(config)))
    assert again == config
    assert again.encoder.chars.widths == (3,)
    assert again.train.encoder_lr == 2e-5


def test_defaults_survive_the_round_trip() -> None:
    assert build(Config, to_dict(Config())) == Config()


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "0.001", ".001", "1.0e-3"])
def test_floats_of_every_spelling(text: str) -> None:
    assert build(Config, parse_settings([f"train.lr={text}"])).train.lr == 1e-3


def test_an_int_is_a_float_but_not_the_other_way_round() -> None:
    assert build(TrainConfig, {"clip": 5}).clip == 5.0
    with pytest.raises(ConfigError, match=r"epochs: found 2\.5"):
        build(TrainConfig, {"epochs": 2.5})


@pytest.mark.parametrize(
    ("values", "place", "found"),
    [
        ({"train": {"epoch": 3}}, "config.train", "did you mean 'epochs'"),
        ({"encodr": {}}, "config", "did you mean 'encoder'"),
        ({"train": 3}, "config.train", "found 3"),
        ({"train": {"lr": "fast"}}, "config.train.lr", "found 'fast'"),
        ({"train": {"epochs": True}}, "config.train.epochs", "found True"),
        ({"train": {"epochs": "ten"}}, "config.train.epochs", "found 'ten'"),
        ({"tensorboard": "yes"}, "config.tensorboard", "found 'yes'"),
        ({"encoder": {"chars": {"widths": 3}}}, "config.encoder.chars.widths", "found 3"),
        ({"encoder": {"chars": {"widths": [2, "x"]}}}, "config.encoder.chars.widths", "found 'x'"),
        ({"options": [1]}, "config.options", r"found \[1\]"),
        ({"train": {"batch_size": 0}}, "config.train.batch_size", "found 0"),
        ({"train": {"lr": -1}}, "config.train.lr", "found -1"),
        ({"train": {"lr": "nan"}}, "config.train.lr", "found nan"),
        ({"encoder": {"dropout": 1.5}}, "config.encoder.dropout", "found 1.5"),
        ({"encoder": {"chars": {"widths": []}}}, "config.encoder.chars.widths", r"found \(\)"),
        ({"encoder": {"chars": {"widths": [0]}}}, "config.encoder.chars.widths", r"found \(0,\)"),
    ],
)
def test_mistakes_name_their_place(values: dict[str, Any], place: str, found: str) -> None:
    with pytest.raises(ConfigError, match=found) as error:
        build(Config, values)
    assert error.value.place == place
    assert error.value.expected


def test_options_of_other_modules_have_no_ranges() -> None:
    @dataclasses.dataclass(frozen=True)
    class Options:
        size: int = 0
        dropout: float = 3.0

    assert build(Options, {"size": -4, "dropout": 7}) == Options(-4, 7.0)


def test_settings_nest_and_later_ones_win() -> None:
    pairs = [
        "train.lr=0.1",
        "train.epochs=3",
        "train.lr=0.2",
        "options.names=[a, b]",
        "encoder.chars.use=false",
    ]
    assert parse_settings(pairs) == {
        "train": {"lr": 0.2, "epochs": 3},
        "options": {"names": ["a", "b"]},
        "encoder": {"chars": {"use": False}},
    }


@pytest.mark.parametrize("pair", ["train.lr", "=3", "train.lr=[1", "train.lr={a"])
def test_settings_that_cannot_be_read(pair: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_settings([pair])
    assert error.value.place == "--set"


def test_merge_leaves_its_arguments_alone() -> None:
    base = {"train": {"lr": 1, "epochs": 2}, "seed": 1}
    assert merge(base, {"train": {"lr": 3}, "seed": {"x": 1}}) == {
        "train": {"lr": 3, "epochs": 2},
        "seed": {"x": 1},
    }
    assert base == {"train": {"lr": 1, "epochs": 2}, "seed": 1}


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("train:\n  epochs: 3\n", encoding="utf-8")
    assert read_yaml(path) == {"train": {"epochs": 3}}
    path.write_text("", encoding="utf-8")
    assert read_yaml(path) == {}


@pytest.mark.parametrize(
    ("content", "place", "found"),
    [
        (b"train:\n  epochs: [3\n", "c.yaml:3", "not YAML"),
        (b"- 1\n- 2\n", "c.yaml", "found a list"),
        (b"name: \xff\xfe", "c.yaml", "not UTF-8"),
    ],
)
def test_broken_files(tmp_path: Path, content: bytes, place: str, found: str) -> None:
    (tmp_path / "c.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=found) as error:
        read_yaml(tmp_path / "c.yaml")
    assert error.value.place.endswith(place)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read_yaml(tmp_path / "c.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_yaml(tmp_path)
