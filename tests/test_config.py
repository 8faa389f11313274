from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import yaml

from nershift import config
from nershift.config import (
    CharsConfig,
    Config,
    EncoderConfig,
    TrainConfig,
    build,
    current_names,
    merge,
    parse_settings,
    read_yaml,
    setting,
    to_dict,
    to_yaml,
)
from nershift.errors import ConfigError


def test_yaml_round_trip_gives_the_same_config() -> None:
    first = build(
        Config,
        {
            "seed": 7,
            "encoder": {"chars": {"widths": [3]}, "words": {"vectors": "wörter.txt"}},
            "train": {"encoder_lr": "2e-5", "optimizer": "sgd"},
            "options": {"alpha": 0.5, "list": [1, 2]},
        },
    )
    again = build(Config, yaml.safe_load(to_yaml(first)))
    assert again == first
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
        ({"train": {"batch_size": -1}}, "config.train.batch_size", "found -1"),
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


@dataclass(frozen=True)
class Options:
    """Of a method outside the package."""

    plain: int = 0
    share: float = setting(0.5, "Share of sentences to keep.", was="part", low=0, high=1)
    rates: tuple[float, ...] = setting((), "Rates to try.", low=0)


def test_a_number_without_limits_may_be_anything() -> None:
    assert build(Options, {"plain": -4}) == Options(-4)


def test_a_list_may_be_empty_only_where_that_is_the_default() -> None:
    assert build(Options, {"rates": []}) == Options()
    with pytest.raises(ConfigError, match="widths"):
        build(CharsConfig, {"widths": []})


def test_a_mistake_shows_what_the_setting_is() -> None:
    with pytest.raises(ConfigError) as wrong_value:
        build(Options, {"share": 2}, "options")
    assert str(wrong_value.value).splitlines() == [
        "options.share: found 2.0",
        "  expected: a number, 0 to 1",
        "  what it is: Share of sentences to keep.",
    ]
    with pytest.raises(ConfigError) as wrong_key:
        build(Options, {"shar": 0.5}, "options")
    assert wrong_key.value.about == "share: Share of sentences to keep."


def blocks(cls: type) -> Iterator[tuple[type, dataclasses.Field[Any]]]:
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        yield cls, field
        if dataclasses.is_dataclass(hints[field.name]):
            yield from blocks(hints[field.name])


def test_every_setting_explains_itself() -> None:
    silent = [f"{cls.__name__}.{f.name}" for cls, f in blocks(Config) if not f.metadata.get("help")]
    assert not silent
    assert all(f.metadata["help"].endswith(".") for _, f in blocks(Config))


def test_every_number_has_limits() -> None:
    numbers = {"int", "float", "float | None", "tuple[int, ...]"}
    assert all(f.metadata["low"] is not None for _, f in blocks(Config) if f.type in numbers)


def test_old_names_are_accepted_with_one_note(caplog: pytest.LogCaptureFixture) -> None:
    values = {"train": {"swap": 0.2, "longest": 9}, "encoder": {"words": {"drop": 0.1}}, "decoder": {"kind": "x"}}
    config._noted.clear()
    for _ in range(2):
        built = build(Config, values)
    assert (built.train.mention_replacement, built.train.max_tokens, built.head.kind) == (0.2, 9, "x")
    assert built.encoder.words.word_dropout == 0.1
    notes = [r.getMessage().split(";")[0] for r in caplog.records]
    assert sorted(notes) == [
        "config.decoder is now called head",
        "config.encoder.words.drop is now called word_dropout",
        "config.train.longest is now called max_tokens",
        "config.train.swap is now called mention_replacement",
    ]


def test_old_names_in_files_of_our_own_need_no_note(caplog: pytest.LogCaptureFixture) -> None:
    config._noted.clear()
    assert build(EncoderConfig, {"words": {"reserve": 7}}, "model.json", saved=True).words.extra_words == 7
    assert not caplog.records


def test_the_later_of_an_old_and_a_new_name_wins_and_blocks_are_merged() -> None:
    assert current_names(TrainConfig, {"swap": 1, "mention_replacement": 2}) == {"mention_replacement": 2}
    assert current_names(TrainConfig, {"mention_replacement": 2, "swap": 1}) == {"mention_replacement": 1}
    both = current_names(Config, {"decoder": {"kind": "crf"}, "head": {"scheme": "BIO"}})
    assert both == {"head": {"kind": "crf", "scheme": "BIO"}}


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
