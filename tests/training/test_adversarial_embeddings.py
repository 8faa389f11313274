"""A second loss with moved word vectors (``train.fgm_epsilon``), and what refuses it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nershift.config import Config, TrainConfig, build, merge
from nershift.data.corpus import Corpus
from nershift.encoders.base import make_encoder
from nershift.errors import ConfigError
from nershift.heads.base import make_head
from nershift.model import TaggingModel
from nershift.run import transfer
from nershift.storage import load_tensors
from nershift.training.adversarial_embeddings import AdversarialEmbeddings
from nershift.training.sampler import BatchSampler
from nershift.training.stage import TrainingStage
from tiny_encoders import make_encoder_folder

MakeCorpus = Callable[..., Corpus]


@pytest.fixture(params=["recurrent", "transformer"])
def settings(request: pytest.FixtureRequest, tiny: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    if request.param == "transformer":
        folder = make_encoder_folder("mpnet", tmp_path / "encoder")
        tiny["encoder"] = {"kind": "transformer", "transformer": {"name": str(folder)}}
    tiny["encoder"]["dropout"] = 0.0
    return tiny


@pytest.fixture
def model(settings: dict[str, Any], make_corpus: MakeCorpus) -> TaggingModel:
    corpus = make_corpus()
    torch.manual_seed(0)
    encoder = make_encoder(build(Config, settings).encoder, corpus.train)
    return TaggingModel(encoder, {"target": make_head("crf", corpus.label_space(), encoder.size)}).eval()


def test_gradients_are_those_of_both_losses(model: TaggingModel, make_corpus: MakeCorpus) -> None:
    sampler = BatchSampler(model, "target", make_corpus().train, 8, seed=1)
    stage = TrainingStage("train", model, TrainConfig(batch_size=8, fgm_epsilon=0.7), {"target": sampler}, 1)
    batches = stage.draw(0, 0, 1)
    (table,) = model.encoder.word_parameters()
    was = table.detach().clone()

    model.zero_grad()
    clean = model(batches["target"])
    clean.backward()
    first = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    with torch.no_grad():
        step = next(g for n, g in first.items() if dict(model.named_parameters())[n] is table)
        table += 0.7 * step / step.norm()
    moved = model(batches["target"])
    moved.backward()
    expected = {n: first[n] + p.grad for n, p in model.named_parameters() if p.grad is not None}
    with torch.no_grad():
        table.copy_(was)

    model.zero_grad()
    logged = stage.gradients(batches, lambda loss: loss.backward())
    assert torch.equal(table, was)
    assert float(logged["loss"]) == pytest.approx(float(clean.detach()))
    assert float(logged["perturbed_loss"]) == pytest.approx(float(moved.detach()), rel=1e-5)
    assert logged["perturbed_loss"] > logged["loss"]
    for name, p in model.named_parameters():
        if p.grad is not None:
            torch.testing.assert_close(p.grad, expected[name], rtol=1e-3, atol=1e-5)


def test_tables_are_back_even_if_the_loss_fails(model: TaggingModel) -> None:
    (table,) = model.encoder.word_parameters()
    moves, was = AdversarialEmbeddings([table]), table.detach().clone()
    table.grad = torch.ones_like(table)

    def fail() -> None:
        with moves.moved(2.0):
            assert float((table.detach() - was).norm()) == pytest.approx(2.0, rel=1e-3)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert torch.equal(table, was)


def test_no_gradient_no_step(model: TaggingModel) -> None:
    (table,) = model.encoder.word_parameters()
    was = table.detach().clone()
    moves = AdversarialEmbeddings([table])
    with moves.moved(2.0):
        assert torch.equal(table, was)
    table.grad = torch.zeros_like(table)
    with moves.moved(2.0):
        assert torch.equal(table, was)


def test_what_earlier_batches_left_has_no_say(model: TaggingModel) -> None:
    (table,) = model.encoder.word_parameters()
    table.grad, was = torch.full_like(table, 3.0), table.detach().clone()
    moves = AdversarialEmbeddings([table])
    table.grad[1] += 2.0
    with moves.moved(1.0):
        step = table.detach() - was
    assert not step[[i for i in range(len(step)) if i != 1]].any()
    torch.testing.assert_close(step[1], torch.full_like(step[1], step.shape[1] ** -0.5))


def test_parts_of_a_step_are_moved_each_by_itself(model: TaggingModel, make_corpus: MakeCorpus) -> None:
    sampler = BatchSampler(model, "target", make_corpus().train, 8, seed=1)
    stage = TrainingStage("train", model, TrainConfig(batch_size=8, fgm_epsilon=0.7), {"target": sampler}, 1)
    found = []
    for parts in ([0], [1], [0, 1]):
        model.zero_grad()
        for k in parts:
            stage.gradients(stage.draw(k, 0, 1), lambda loss: loss.backward())
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    for one, other, both in zip(*found, strict=True):
        torch.testing.assert_close(both, one + other, rtol=1e-3, atol=1e-5)


def test_a_run_learns_from_it(settings: dict[str, Any], make_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = make_corpus("news")
    weights = []
    for name, over in (
        ("plain", {}),
        ("moved", {"train": {"fgm_epsilon": 1.0}}),
        ("swap", {"train": {"mention_replacement": 0.5}}),
    ):
        config = merge(settings, over)
        transfer("target_only", corpus, out=tmp_path / name, config=config, quiet=True, report=False)
        weights.append(load_tensors(tmp_path / name / "model.safetensors")[0])
    for other in weights[1:]:
        assert any(not torch.equal(value, other[name]) for name, value in weights[0].items())
    assert "perturbed_loss" in (tmp_path / "moved" / "log.jsonl").read_text()


def _named(corpus: Corpus, name: str) -> Corpus:
    return Corpus(name, corpus.splits, domain=name, language="en")


@pytest.mark.parametrize(
    ("method", "over", "place"),
    [
        ("datnet", {"train": {"fgm_epsilon": 1.0}}, "config.train.fgm_epsilon"),
        ("metaner", {"pretrain": {"fgm_epsilon": 1.0}}, "config.pretrain.fgm_epsilon"),
        ("bilm", {"pretrain": {"mention_replacement": 0.5}}, "config.pretrain.mention_replacement"),
        (
            "finetune",
            {"train": {"fgm_epsilon": 1.0}, "encoder": {"words": {"train": False}}},
            "config.train.fgm_epsilon",
        ),
    ],
)
def test_what_a_phase_would_not_follow_is_refused(
    tiny: dict[str, Any],
    make_corpus: MakeCorpus,
    tmp_path: Path,
    method: str,
    over: dict[str, Any],
    place: str,
) -> None:
    sources = [make_corpus("news"), _named(make_corpus("news", seed=1), "other")]
    target = make_corpus("news", seed=2)
    with pytest.raises(ConfigError) as caught:
        transfer(method, target, sources, out=tmp_path / "out", config=merge(tiny, over), quiet=True)
    assert place in str(caught.value)
    assert "omit" in str(caught.value)
    assert not list((tmp_path / "out").glob("state/*"))  # before any training
