"""Meta-training of MetaCross as it runs: short memory, half precision, masks, resuming."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from looped import run_loop
from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.errors import ConfigError, Interrupted
from nershift.methods.metacross.stage import PseudoTaskStage
from nershift.methods.metacross.task_sampler import hide
from nershift.run import transfer
from nershift.training.logger import TrainLogger
from tiny_encoders import make_encoder_folder

pytest.importorskip("transformers")
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = make_encoder_folder("bert", tmp_path_factory.mktemp("bert"))
    transformer = {"name": str(folder), "freeze_layers": 1, "max_subwords": 24, "overlap": 8}
    return {
        "device": "cpu",
        "encoder": {"transformer": transformer, "chars": {"use": False}, "dropout": 0.0},
        "pretrain": {"batch_size": 8, "max_steps": 7, "epochs": 9, "lr": 0.01},
        "options": {"rule": "sgd", "inner_lr": 0.01, "adapt_lr": 0.01},
    }


@pytest.fixture
def make(make_method: Make, make_corpus: Make, settings: dict[str, Any]) -> Make:
    source = make_corpus("news", train=30, dev=8, test=0)

    def stage(over: Any = None) -> PseudoTaskStage:
        made = make_method("metacross", [source], settings=merge(settings, over or {})).pretrain()
        assert isinstance(made, PseudoTaskStage)
        return made

    return stage


def gradients(stage: PseudoTaskStage, step: int = 0) -> dict[str, Tensor]:
    stage.model.eval()  # no dropout, whose masks differ between a batch and its halves
    stage.model.zero_grad()
    stage.gradients(stage.draw(step, 0, 1), Tensor.backward)
    return {n: p.grad.clone() for n, p in stage.model.named_parameters() if p.grad is not None}


def short_of_memory(stage: PseudoTaskStage, room: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let groups of more than ``room`` tasks fail in the middle; returns the sizes that are tried."""
    tried, whole = list[int](), PseudoTaskStage._queries_after_steps

    def short(self: PseudoTaskStage, query: Any, support: Any) -> Tensor:
        tried.append(len(query))
        loss = whole(self, query, support)
        if len(query) > room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss

    monkeypatch.setattr(PseudoTaskStage, "_queries_after_steps", short)
    return tried


@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_the_meta_batch_halves_itself(make: Make, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    over = {"options": {"rule": rule, "batched": "always"}}
    expected = [gradients(make(over), step) for step in range(2)]
    stage = make(over)
    tried = short_of_memory(stage, 2, monkeypatch)
    found = [gradients(stage, step) for step in range(2)]
    assert tried == [8, 4, 2, 2, 4, 2, 2, *[2] * 4]  # what was learned of memory in one step serves the next
    for a, b in zip(found, expected, strict=True):
        assert set(a) == set(b)
        for name, value in b.items():
            torch.testing.assert_close(a[name], value, rtol=1e-3, atol=1e-5 + 1e-3 * float(value.abs().max()))


def test_a_task_that_does_not_fit(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make()
    short_of_memory(stage, 0, monkeypatch)
    with pytest.raises(ConfigError, match="one task do not fit") as error:
        gradients(stage)
    assert error.value.place == "options.memory"


def test_other_errors_are_not_taken_for_short_memory(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Tensor:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(PseudoTaskStage, "_queries_after_steps", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        gradients(make())


@pytest.mark.parametrize("batched", ["always", "never"])
@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_meta_gradients_in_half_precision(make: Make, rule: str, batched: str) -> None:
    over = {
        "pretrain": {"precision": "bf16"},
        "options": {"rule": rule, "inner_lr": 1e-3, "batched": batched},
    }
    exact, half = make(over), make(over)
    expected = gradients(exact)
    with torch.autocast("cpu", torch.bfloat16):
        found = gradients(half)
    assert all(g.dtype == torch.float32 for g in found.values())
    a, b = (torch.cat([grads[n].flatten() for n in expected]) for grads in (found, expected))
    assert torch.nn.functional.cosine_similarity(a, b, 0) > 0.98


@pytest.mark.parametrize("whole", [True, False])
def test_hiding_in_ready_features_is_preparing_with_masks(make: Make, whole: bool) -> None:
    stage = make()
    encoder = stage.model.encoder
    sentences = [s.tokens for s in stage.sampler.sentences]
    sentences.append(tuple(["Ada", "flew", "from", "Leeds", "to", "Porto", "."] * 5))  # several windows
    for n, tokens in enumerate(sentences):
        hidden = {i for i in range(len(tokens)) if (i + n) % 3 == 0} | {len(tokens) - 1}
        for some in (hidden, set()):
            expected = encoder.prepare(tokens, some, whole)
            found = hide(encoder, tokens, encoder.prepare(tokens), some, whole)
            assert (found.ids, found.at) == (expected.ids, expected.at)


@pytest.mark.parametrize(
    "over", [{}, {"options": {"rule": "adam", "batched": "always"}}, {"pretrain": {"precision": "bf16"}}]
)
def test_a_resumed_run_ends_with_the_same_weights(make: Make, tmp_path: Path, over: dict[str, Any]) -> None:
    over = merge({"encoder": {"dropout": 0.2}}, over)  # masks of states and of entities are drawn anew
    whole = run_loop(make(over), tmp_path / "whole")
    for stop in (2, 5):
        with pytest.raises(Interrupted):
            run_loop(make(over), tmp_path / "cut", stop_after=stop)
    resumed = run_loop(make(over), tmp_path / "cut")
    assert all(torch.equal(resumed[n], value) for n, value in whole.items())


def test_training_learns(make_corpus: Make, settings: dict[str, Any], tmp_path: Path) -> None:
    """Loss falls, F1 on dev rises, and the run tells what its step for each sentence did."""
    source = make_corpus("news", train=60, dev=20, test=0)
    target = Corpus("ward", make_corpus("clinic", train=10, dev=6, test=8).mapped({"drug": "O"}).splits)
    config = merge(settings, {"pretrain": {"max_steps": 96, "epochs": 12, "precision": "bf16"}})
    config = merge(config, {"options": {"adapt_lrs": [0.01, 0.1], "adapt_precision": "bf16"}})
    run = transfer("metacross", target, [source], out=tmp_path / "r", config=config, quiet=True, report=False)
    with TrainLogger(run.folder, quiet=True) as logger:
        told = [e for e in logger.entries() if e["phase"] == "pretrain"]
    assert told[-1]["loss"] < 0.8 * told[0]["loss"]
    assert run.metrics["phases"]["pretrain"]["dev_f1"] > 0.4 > told[0]["dev_f1"]
    assert run.metrics["test_adaptation"]["rate"] in (0.01, 0.1)
    assert set(run.metrics["test_adaptation"]) >= {"f1_before", "tokens_changed"}
