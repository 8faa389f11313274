from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nershift import run
from nershift.config import Config, TrainConfig, build
from nershift.data.corpus import Corpus
from nershift.encoders.base import make_encoder
from nershift.encoders.recurrent import _turns_there, turns
from nershift.heads.base import make_head
from nershift.methods.datnet.stage import DATNetStage
from nershift.methods.metaner.step import MetaStage
from nershift.model import Batch, TaggingModel
from nershift.storage import load_tensors
from nershift.text.word_cache import Rounding
from nershift.training import loop as loops
from nershift.training.cuda_graphs import GraphRunner, Logged
from nershift.training.logger import TrainLogger
from nershift.training.loop import Loop
from nershift.training.processes import Processes
from nershift.training.sampler import BatchSampler
from nershift.training.stage import MixedStage, TrainingStage
from tiny_encoders import make_encoder_folder

MakeCorpus = Callable[..., Corpus]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Rerun(GraphRunner):
    """Where there is no GPU: a recording is run anew, from the tensors that it was made with."""

    made = 0

    @contextmanager
    def _stream(self) -> Iterator[None]:
        yield

    def _capture(self, run: Callable[[], Logged]) -> tuple[Callable[[], Any], Logged]:
        type(self).made += 1
        logged: Logged = []

        def replay() -> None:
            logged[:] = run()

        return replay, logged


def replay_steps(monkeypatch: pytest.MonkeyPatch, runner: type[GraphRunner]) -> None:
    """From here on, steps that can be recorded run in ``runner``, although there is no GPU."""
    monkeypatch.setattr(loops, "GraphRunner", runner)
    monkeypatch.setattr(Loop, "_recorded", lambda self: self.stage.cuda_graph_safe)


def model_of(corpus: Corpus, tiny: dict[str, Any], dropout: float = 0.0) -> TaggingModel:
    torch.manual_seed(0)
    tiny["encoder"]["dropout"] = dropout
    encoder = make_encoder(build(Config, tiny).encoder, corpus.train)
    return TaggingModel(encoder, {"target": make_head("crf", corpus.label_space(), encoder.size)})


def trained(
    model: TaggingModel, corpus: Corpus, folder: Path, device: str, **config: Any
) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """Weights after three epochs, and what was logged."""
    folder.mkdir()
    with Processes(device) as processes:
        model.to(processes.device)
        settings = TrainConfig(batch_size=8, epochs=3, lr=0.02, **config)
        stage = TrainingStage(
            "train", model, settings, {"target": BatchSampler(model, "target", corpus.train, 8, seed=1)}, 1
        )
        with TrainLogger(folder, quiet=True) as logger:
            told: list[dict[str, Any]] = []
            write = logger.write
            logger.write = lambda entry, step: (told.append(dict(entry)), write(entry, step))[1]  # type: ignore[method-assign, assignment, func-returns-value]
            Loop(stage, folder, processes, logger).run()
    return {name: p.detach().cpu() for name, p in model.named_parameters()}, told


def both_ways(
    method: str,
    target: Corpus,
    sources: list[Corpus],
    config: dict[str, Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[dict[str, Tensor]]:
    """The weights of a run whose steps run as they are, and of one whose steps are replayed."""
    weights, Rerun.made = [], 0
    for name in ("plain", "replayed"):
        run.transfer(method, target, sources, out=folder / name, config=config, quiet=True)
        weights.append(load_tensors(folder / name / "model.safetensors")[0])
        replay_steps(monkeypatch, Rerun)
    assert Rerun.made > 0
    return weights


def test_padding_to_round_shapes_changes_no_loss_and_no_gradient(make_corpus: MakeCorpus, tiny: dict[str, Any]) -> None:
    corpus, found = make_corpus("news"), []
    for rounding in (None, Rounding(16, 64, 8)):
        model = model_of(corpus, tiny)
        model.encoder.rounding = rounding
        batch = BatchSampler(model, "target", corpus.train, 8, seed=1).batch(0)
        loss = model(batch)
        loss.backward()
        found.append((batch, loss, [p.grad for p in model.parameters()]))
    (plain, loss, grads), (padded, same, others) = found
    assert padded.mask.shape == (8, 16)
    assert padded.inputs["chars"].shape == (64, 12) != plain.inputs["chars"].shape  # no wider than words may be
    assert padded.inputs["rows"].shape == (64,)
    torch.testing.assert_close(same, loss)
    for a, b in zip(grads, others, strict=True):
        torch.testing.assert_close(a, b)


def test_turns_worked_out_on_the_device_are_those_of_the_cpu() -> None:
    lengths = torch.tensor([3, 5, 1])
    for a, b in zip(turns(lengths, 6), _turns_there(lengths, 6), strict=True):
        torch.testing.assert_close(a, b)


def test_replayed_steps_train_what_plain_steps_train(
    make_corpus: MakeCorpus, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = make_corpus("news", train=44)  # the last batch is smaller
    plain, log = trained(model_of(corpus, tiny), corpus, tmp_path / "plain", "cpu", schedule="linear")
    replay_steps(monkeypatch, Rerun)
    model = model_of(corpus, tiny)
    replayed, again = trained(model, corpus, tmp_path / "replayed", "cpu", schedule="linear")
    assert Rerun.made > 0
    assert model.encoder.rounding is None  # as it was
    for name, value in plain.items():
        torch.testing.assert_close(replayed[name], value, rtol=1e-4, atol=1e-5)
    assert [e["loss"] for e in again] == pytest.approx([e["loss"] for e in log], rel=1e-4)


@pytest.mark.parametrize("method", ["dann", "datnet", "multitask"])
def test_batches_of_several_feeds_are_padded_alike_and_train_the_same(
    method: str,
    make_corpus: MakeCorpus,
    tiny: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tiny["encoder"] |= {"dropout": 0.0, "input_dropout": 0.0, "recurrent": {"size": 10, "cell": "lstm"}}
    tiny["train"] |= {"optimizer": "sgd", "lr": 0.1, "schedule": "constant"}
    corpora = make_corpus("clinic", train=60), [make_corpus("news", train=60)]
    plain, replayed = both_ways(method, *corpora, tiny, tmp_path, monkeypatch)
    for name, value in plain.items():
        torch.testing.assert_close(replayed[name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("method", "chars"), [("laner", True), ("direct", False)])
def test_steps_of_transformers_are_replayed_alike(
    method: str,
    chars: bool,
    make_corpus: MakeCorpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = make_encoder_folder("mpnet", tmp_path / "mpnet")
    shape = json.loads((folder / "config.json").read_text())
    shape |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(shape))
    encoder = {
        "transformer": {"name": str(folder)}, "chars": {"use": chars, "size": 4, "filters": 6}, "dropout": 0.0,
    }  # fmt: skip
    stage = {"optimizer": "adamw", "lr": 1e-3, "epochs": 2, "batch_size": 8, "warmup": 0.1}
    config = {"device": "cpu", "encoder": encoder, "pretrain": stage, "train": stage}
    corpora = make_corpus("news", train=20, seed=1), [make_corpus("news", train=44)]
    plain, replayed = both_ways(method, *corpora, config, tmp_path, monkeypatch)
    without_gradient = "k.bias"  # but for rounding, of which Adam makes whole steps
    for name, value in plain.items():
        if not name.endswith(without_gradient):
            torch.testing.assert_close(replayed[name], value, rtol=1e-3, atol=1e-4)


@needs_gpu
@pytest.mark.parametrize(("dropout", "perturb"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.5)])
def test_recorded_steps_on_a_gpu(
    dropout: float, perturb: float, make_corpus: MakeCorpus, tiny: dict[str, Any], tmp_path: Path
) -> None:
    corpus, found = make_corpus("news", train=44), []
    for record in (False, True):
        model = model_of(corpus, tiny, dropout)
        found.append(trained(model, corpus, tmp_path / str(record), "cuda", cuda_graphs=record, fgm_epsilon=perturb))
    (plain, log), (replayed, again) = found
    if not dropout:
        assert [e["loss"] for e in again] == pytest.approx([e["loss"] for e in log], rel=0.02)
        for name, value in plain.items():
            torch.testing.assert_close(replayed[name], value, rtol=0.05, atol=0.01)
    else:  # masks are drawn anew at each replay, or the loss would not be like that of plain steps
        assert again[-1]["loss"] == pytest.approx(log[-1]["loss"], rel=0.5)


@needs_gpu
@pytest.mark.parametrize("method", ["target_only", "datnet", "aggregate", "multitask"])
def test_methods_record_their_steps(
    method: str, make_corpus: MakeCorpus, tiny: dict[str, Any], tmp_path: Path, recwarn: Any
) -> None:
    tiny["device"] = "cuda"
    sources = [] if method == "target_only" else [make_corpus("news", train=60)]
    run.transfer(method, make_corpus("clinic", train=60), sources, out=tmp_path / "run", config=tiny)
    assert not [w for w in recwarn if "not recorded" in str(w.message)]


@needs_gpu
@pytest.mark.parametrize("method", ["finetune", "laner"])
@pytest.mark.parametrize("kind", ["bert", "distilbert", "mpnet"])
@pytest.mark.parametrize("more", [{}, {"fgm_epsilon": 0.5, "mention_replacement": 0.3, "model_soup": 2}])
def test_transformers_record_their_steps(
    more: dict[str, float], kind: str, method: str, make_corpus: MakeCorpus, tmp_path: Path, recwarn: Any
) -> None:
    stage: dict[str, Any] = {"precision": "bf16", "batch_size": 8, "epochs": 4, "clip": 1.0} | more
    stage["schedule"] = "linear"
    name = str(make_encoder_folder(kind, tmp_path / "encoder"))
    encoder = {"kind": "transformer", "transformer": {"name": name}, "chars": {"use": True}}
    config = {"device": "cuda", "encoder": encoder, "train": stage, "pretrain": stage}
    sources = [make_corpus("news", train=60)]
    run.transfer(method, make_corpus("clinic", train=60), sources, out=tmp_path / "run", config=config)
    assert not [w for w in recwarn if "not recorded" in str(w.message)]


def test_a_step_that_cannot_be_recorded_runs_as_it_is(
    make_corpus: MakeCorpus,
    tiny: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Refuses(Rerun):
        def _capture(self, run: Callable[[], Logged]) -> tuple[Callable[[], Any], Logged]:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")

    corpus = make_corpus("news", train=44)
    plain, _ = trained(model_of(corpus, tiny), corpus, tmp_path / "plain", "cpu")
    replay_steps(monkeypatch, Refuses)
    with pytest.warns(RuntimeWarning, match="not recorded, which is slower: .*capturing$"):
        found, _ = trained(model_of(corpus, tiny), corpus, tmp_path / "refused", "cpu")
    for name, value in plain.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5)


def test_a_phase_with_gradients_of_its_own_is_not_recorded_unless_it_says_so() -> None:
    class Own(TrainingStage):
        def loss(self, batches: Mapping[str, Batch]) -> Tensor:
            return super().loss(batches)

    class Drawn(MixedStage):
        pass

    assert (TrainingStage.cuda_graph_safe, Drawn.cuda_graph_safe, DATNetStage.cuda_graph_safe) == (True, True, True)
    assert (Own.cuda_graph_safe, MetaStage.cuda_graph_safe) == (False, False)
