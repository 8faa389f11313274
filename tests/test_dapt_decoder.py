"""Decoder-only models adapted by masked next-token prediction with low-rank changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nershift.config import EncoderConfig, build
from nershift.dapt.low_rank import add_changes, merge_changes
from nershift.dapt.next_token import NextTokenLM, language_model
from nershift.dapt.pretraining import dapt
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.encoders.base import make_encoder
from nershift.errors import ConfigError, Interrupted
from nershift.storage import load_tensors
from nershift.training.processes import Processes

sys.path.insert(0, str(Path(__file__).parent))
from tiny_encoders import make_encoder_folder

transformers = pytest.importorskip("transformers")
QUICK: dict[str, Any] = {
    "device": "cpu",
    "max_subwords": 40,
    "eval_steps": 5,
    "rank": 4,
    "train": {"epochs": 4, "batch_size": 16, "lr": 0.02, "warmup": 0.0},
}


@pytest.fixture(scope="module")
def text(make_corpus: Callable[..., Corpus]) -> list[Sentence]:
    return [s.with_spans(()) for s in make_corpus("news", train=120).train]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_encoder_folder("gemma", tmp_path_factory.mktemp("encoder") / "gemma"))


def test_changes_of_low_rank_are_the_product_of_two_matrices() -> None:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3, bias=False))
    names, before = set(model.state_dict()), {n: p.clone() for n, p in model.named_parameters()}
    x = torch.randn(4, 5)
    expected = model(x)
    assert add_changes(model, 2) == 2
    assert torch.equal(model(x), expected)  # nothing is changed yet
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert sum(p.numel() for p in trained.values()) == 2 * (5 + 7) + 2 * (7 + 3)
    with torch.no_grad():
        for p in trained.values():
            p.normal_()
    products = [layer.parametrizations.weight[0] for layer in (model[0], model[2])]
    expected_weights = [before[f"{i}.weight"] + p.up @ p.down for i, p in zip((0, 2), products, strict=True)]
    changed = model(x)
    merge_changes(model)
    assert set(model.state_dict()) == names
    torch.testing.assert_close(model(x), changed)
    for i, weight in zip((0, 2), expected_weights, strict=True):
        torch.testing.assert_close(model[i].weight, weight)


def test_a_masked_sub_word_is_predicted_from_the_one_before_it(folder: str) -> None:
    lm = language_model(folder, 40, rank=0)
    assert isinstance(lm, NextTokenLM)
    ids = torch.tensor([[0, 20, 4, 30, 31], [0, 40, 41, 4, 43]])  # 4 is the mask
    mask, places = torch.ones_like(ids), torch.tensor([2, 5 + 3])
    lm.encoder.eval()
    whole = transformers.AutoModelForCausalLM.from_pretrained(folder).float().eval()
    with torch.no_grad():
        found = lm.logits(ids, mask, places)
        expected = whole(input_ids=ids, attention_mask=mask).logits[[0, 1], [1, 2]]
    torch.testing.assert_close(found, expected)
    later = ids.clone()
    later[0, 4] = 50  # what stands behind the mask matters
    with torch.no_grad():
        assert not torch.allclose(lm.logits(later, mask, places)[0], found[0])


def test_it_learns_the_text_and_serves_as_an_encoder(folder: str, text: list[Sentence], tmp_path: Path) -> None:
    metrics = dapt(folder, [text], out=tmp_path / "out", config=QUICK, quiet=True)
    assert metrics["loss"] < metrics["loss_before"] - 0.5
    config, before = (transformers.AutoConfig.from_pretrained(d) for d in (tmp_path / "out", folder))
    assert config.sliding_window == before.sliding_window
    assert config.use_bidirectional_attention is True
    old, new = (load_tensors(Path(d, "model.safetensors"))[0] for d in (folder, tmp_path / "out"))
    assert set(old) == set(new)
    changed = {name for name in old if not torch.equal(old[name], new[name])}
    assert changed == {name for name in old if "proj" in name}  # linear layers alone
    for name in changed:
        assert torch.linalg.matrix_rank(new[name] - old[name], atol=1e-4) <= 4
    values = {"kind": "transformer", "transformer": {"name": str(tmp_path / "out")}, "chars": {"use": False}}
    encoder = make_encoder(build(EncoderConfig, values), text)
    assert encoder(**encoder.collate([encoder.prepare(s.tokens) for s in text[:3]])).isfinite().all()


def test_all_weights_are_trained_if_asked(folder: str, text: list[Sentence], tmp_path: Path) -> None:
    quick = QUICK | {"rank": 0, "train": QUICK["train"] | {"epochs": 1}}
    dapt(folder, [text], out=tmp_path / "out", config=quick, quiet=True)
    old, new = (load_tensors(Path(d, "model.safetensors"))[0] for d in (folder, tmp_path / "out"))
    assert not any(torch.equal(old[name], new[name]) for name in old)


def test_stopped_and_resumed_equals_never_stopped(
    folder: str, text: list[Sentence], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dapt(folder, [text], out=tmp_path / "whole", config=QUICK, quiet=True)
    asked = iter(range(100))
    monkeypatch.setattr(Processes, "stop_asked", lambda self: next(asked) == 6)
    with pytest.raises(Interrupted):
        dapt(folder, [text], out=tmp_path / "parts", config=QUICK, quiet=True)
    dapt(folder, [text], out=tmp_path / "parts", config=QUICK, quiet=True)
    whole, parts = (load_tensors(tmp_path / d / "model.safetensors")[0] for d in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_a_model_that_reads_forwards_is_refused(text: list[Sentence], tmp_path: Path) -> None:
    forwards = make_encoder_folder("gemma-causal", tmp_path / "causal")
    with pytest.raises(ConfigError, match="use_bidirectional_attention"):
        dapt(str(forwards), [text], out=tmp_path / "out", config=QUICK, quiet=True)
