"""Encoders by name: those of this machine are found, no other is fetched unless asked for, and its size is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from nershift.auto.encoders import ROLES, choose_encoder
from nershift.errors import ConfigError


def make_encoder(folder: Path, half: bool = False) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    save_file(
        {"table": torch.zeros(1000, 200, dtype=torch.half if half else torch.float)}, folder / "model.safetensors"
    )
    return folder


@pytest.fixture(autouse=True)
def nothing_here(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("NERSHIFT_ENCODERS", str(tmp_path / "encoders"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))


def test_none_and_nothing(tmp_path: Path) -> None:
    assert choose_encoder("none") is None
    assert choose_encoder("auto") is None


@pytest.mark.parametrize("name", ["small", "minilm", "all-MiniLM-L6-v2"])
def test_a_role_is_found_under_its_names(tmp_path: Path, name: str) -> None:
    folder = make_encoder(tmp_path / "encoders" / name)
    for asked in ("small", "auto"):
        found = choose_encoder(asked)
        assert found is not None
        assert (found.place, found.millions, found.licence) == (str(folder), 0.2, "Apache-2.0")


def test_weights_are_counted_in_half_precision(tmp_path: Path) -> None:
    found = choose_encoder(str(make_encoder(tmp_path / "mine", half=True)))
    assert found is not None
    assert found.millions == 0.2


def test_the_table_of_sub_words_takes_no_time(tmp_path: Path) -> None:
    folder = make_encoder(tmp_path / "mine")
    told = {"model_type": "bert", "vocab_size": 1000, "hidden_size": 100}
    (folder / "config.json").write_text(json.dumps(told))
    found = choose_encoder(str(folder))
    assert found is not None
    assert found.millions == pytest.approx(0.1)


def test_the_hubs_cache_is_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "models--sentence-transformers--all-MiniLM-L6-v2" / "snapshots" / "abc"
    make_encoder(folder)
    found = choose_encoder("small")
    assert found is not None
    assert found.place == str(folder)


def test_another_language_does_not_get_an_english_encoder(tmp_path: Path) -> None:
    make_encoder(tmp_path / "encoders" / "small")
    assert choose_encoder("auto", language="es") is None
    folder = make_encoder(tmp_path / "encoders" / "multilingual")
    found = choose_encoder("auto", language="es")
    assert found is not None
    assert found.place == str(folder)


def test_a_gpu_gets_the_larger_one(tmp_path: Path) -> None:
    for name in ("small", "base"):
        make_encoder(tmp_path / "encoders" / name)
    found = {device: choose_encoder("auto", device=device) for device in ("cpu", "cuda")}
    assert [e.name for e in found.values() if e is not None] == ["small", "base"]


def test_nothing_is_fetched_without_a_word_on_its_size() -> None:
    for role, encoder in ROLES.items():
        with pytest.raises(ConfigError) as told:
            choose_encoder(role)
        for part in (encoder.place, f"{encoder.megabytes:,} MB", encoder.licence, "--download fetches it"):
            assert part in str(told.value)
        asked = choose_encoder(role, download=True)
        assert asked is not None
        assert not asked.here
        assert asked.place == encoder.place


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'small'"):
        choose_encoder("smal")
    with pytest.raises(ConfigError, match="there is no encoder"):
        choose_encoder("./nowhere")
    with pytest.raises(ConfigError, match="not on this machine"):
        choose_encoder("owner/name")
