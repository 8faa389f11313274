"""Two transformers side by side: states, characters, saving, and a run with each head."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nershift.config import EncoderConfig, build
from nershift.data.corpus import Corpus
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence
from nershift.encoders.base import make_encoder
from nershift.encoders.concat import ConcatEncoder
from nershift.errors import ConfigError
from nershift.heads.base import make_head
from nershift.model import TaggingModel
from nershift.model_store import load_model, save_model
from nershift.run import transfer

pytest.importorskip("transformers")
from tiny_encoders import make_encoder_folder

ROWS = [["Ada", "flew", "to", "Leeds"], ["Graz"], ["In", "Lima", "Ruiz", "spoke", "in", "1998", "."]]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    root = tmp_path_factory.mktemp("encoders")
    return (
        str(make_encoder_folder("bert", root / "one")),
        str(make_encoder_folder("mpnet", root / "other", seed=1, size=24)),
    )


def made(name: str, chars: bool = False) -> Any:
    torch.manual_seed(0)
    settings = {"kind": "transformer", "transformer": {"name": name}, "dropout": 0.0}
    settings["chars"] = {"use": chars, "size": 4, "filters": 4}
    return make_encoder(build(EncoderConfig, settings), [Sentence.of(r) for r in ROWS]).eval()


def states(encoder: Any) -> torch.Tensor:
    with torch.no_grad():
        return encoder(**encoder.collate([encoder.prepare(row) for row in ROWS]))


def test_states_are_those_of_each_one_behind_the_other(names: tuple[str, str]) -> None:
    both = made("+".join(names))
    assert isinstance(both, ConcatEncoder)
    alone = [states(made(name)) for name in names]
    torch.testing.assert_close(states(both), torch.cat(alone, -1))
    assert both.size == 16 + 24
    assert len(both.word_parameters()) == 2


def test_characters_stand_beside_the_first(names: tuple[str, str], tmp_path: Path) -> None:
    both = made(" + ".join(names), chars=True)
    assert both.size == 16 + 4 + 24
    both.learn_words(["Ωmega"])
    before = states(both)
    both.forget()
    torch.testing.assert_close(states(both), before)
    space = LabelSpace.of(["A"])
    save_model(tmp_path / "model", TaggingModel(both, {"target": make_head("crf", space, both.size)}), {})
    again, _ = load_model(tmp_path / "model")
    torch.testing.assert_close(states(again.encoder), before)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_runs_with_both_heads(
    names: tuple[str, str], make_corpus: Callable[..., Corpus], tmp_path: Path, precision: str
) -> None:
    config: dict[str, Any] = {
        "device": "cpu",
        "encoder": {"kind": "transformer", "transformer": {"name": "+".join(names)}, "chars": {"use": True}},
        "train": {"epochs": 1, "max_steps": 3, "precision": precision},
    }
    corpus = make_corpus("news", train=20, dev=6, test=6)
    for method in ("laner", "target_only"):
        run = transfer(method, corpus, out=tmp_path / method, config=config, quiet=True, report=False)
        tagged = run.tagger().tag_sentences(corpus.test)
        assert [s.spans for s in tagged] == [s.spans for s in run.predictions()[1]]


def test_an_unknown_one_of_them_is_a_message(names: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        made(f"{names[0]}+{tmp_path / 'none'}")
