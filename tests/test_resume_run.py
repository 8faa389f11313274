"""A finished run trains on: `nershift.resume` and the verb."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.errors import CheckpointError, ConfigError, OtherRunError
from nershift.resume_run import resume
from nershift.run import transfer

MakeCorpus = Callable[..., Corpus]
UPDATES = {"train": {"epochs": 0, "updates": 12}, "pretrain": {"epochs": 0, "updates": 5}}


@pytest.fixture
def corpora(make_corpus: MakeCorpus) -> tuple[Corpus, list[Corpus]]:
    return make_corpus("clinic"), [make_corpus("news")]


@pytest.mark.parametrize("method", ["target_only", "finetune", "multitask"])
@pytest.mark.parametrize("selection", ["last", "dev"])
def test_it_ends_with_the_weights_of_one_long_run(
    method: str, selection: str, corpora: tuple[Corpus, list[Corpus]], tiny: dict[str, Any], tmp_path: Path
) -> None:
    target, sources = corpora
    config = merge(tiny, UPDATES) | {"selection": selection}
    short = transfer(method, target, sources, out=tmp_path / "r", config=config, shots=20, quiet=True)
    more = resume(tmp_path / "r", target, sources, updates=8, quiet=True)
    longer = merge(config, {"train": {"updates": 20}})
    whole = transfer(method, target, sources, out=tmp_path / "whole", config=longer, shots=20, quiet=True)
    assert short.metrics["phases"]["train"]["steps"] == 12
    assert more.metrics["phases"]["train"]["steps"] == more.metrics["phases"]["train"]["total"] == 20
    if selection == "last":  # with dev, the moments of evaluation differ
        for name in ("model.safetensors", "predictions.jsonl"):
            assert (more.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    assert yaml.safe_load((more.folder / "config.yaml").read_text())["train"]["updates"] == 20
    assert any("went on after update 12" in note for note in more.metrics["remarks"])
    assert resume(tmp_path / "r", target, sources, updates=1, quiet=True).metrics["phases"]["train"]["steps"] == 21


def test_a_length_in_epochs_grows_too(
    corpora: tuple[Corpus, list[Corpus]], tiny: dict[str, Any], tmp_path: Path
) -> None:
    target, _ = corpora
    transfer("target_only", target, out=tmp_path / "r", config=tiny, quiet=True)  # 2 epochs of 5 updates
    more = resume(tmp_path / "r", target, updates=5, quiet=True)
    assert more.metrics["phases"]["train"]["steps"] == 15
    assert yaml.safe_load((more.folder / "config.yaml").read_text())["train"]["epochs"] == 3


def test_what_cannot_go_on_says_why(
    corpora: tuple[Corpus, list[Corpus]], tiny: dict[str, Any], tmp_path: Path, make_corpus: MakeCorpus
) -> None:
    target, sources = corpora
    transfer("target_only", target, out=tmp_path / "r", config=tiny, quiet=True)
    with pytest.raises(OtherRunError, match="other data"):
        resume(tmp_path / "r", make_corpus("clinic", seed=5), updates=5)
    for updates in (0, 10**26):
        with pytest.raises(ConfigError, match="1 to 100,000,000"):
            resume(tmp_path / "r", target, updates=updates)
    with pytest.raises(CheckpointError, match="not a finished run"):
        resume(tmp_path / "nothing", target, updates=5)
    (tmp_path / "r" / "state" / "train.checkpoint.safetensors").unlink()
    with pytest.raises(CheckpointError, match="no state to go on from") as error:
        resume(tmp_path / "r", target, updates=5)
    assert "train.updates=20" in error.value.fix
    soup = merge(tiny, {"train": {"model_soup": 2}})
    transfer("target_only", target, out=tmp_path / "soup", config=soup, quiet=True)
    with pytest.raises(CheckpointError, match="mean of several trainings"):
        resume(tmp_path / "soup", target, updates=5)
    transfer("source_only", target.mapped({"drug": "O"}), sources, out=tmp_path / "zero", config=tiny, quiet=True)
    with pytest.raises(CheckpointError, match="did not train on the target"):
        resume(tmp_path / "zero", target.mapped({"drug": "O"}), sources, updates=5)
