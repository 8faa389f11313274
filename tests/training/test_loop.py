from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nershift.config import Config, TrainConfig, build
from nershift.data.corpus import Corpus
from nershift.encoders.base import make_encoder
from nershift.errors import CheckpointError, Interrupted
from nershift.heads.base import make_head
from nershift.model import Batch, TaggingModel
from nershift.storage import load_tensors
from nershift.training import loop as loop_module
from nershift.training.logger import TrainLogger
from nershift.training.loop import Diverged, Loop, Progress
from nershift.training.processes import Processes
from nershift.training.sampler import BatchSampler
from nershift.training.stage import TrainingStage

MakeCorpus = Callable[..., Corpus]


@pytest.fixture
def corpus(make_corpus: MakeCorpus) -> Corpus:
    return make_corpus("news", train=40)


@pytest.fixture
def new_model(corpus: Corpus, tiny: dict[str, Any]) -> Callable[..., TaggingModel]:
    def make(dropout: float = 0.0) -> TaggingModel:
        torch.manual_seed(0)
        tiny["encoder"]["dropout"] = dropout
        encoder = make_encoder(build(Config, tiny).encoder, corpus.train)
        return TaggingModel(encoder, {"target": make_head("crf", corpus.label_space(), encoder.size)})

    return make


class Scripted(TrainingStage):
    """Batch ``j`` is sentences ``size*j`` to ``size*(j+1)``; the dev scores are given."""

    def __init__(
        self, model: TaggingModel, config: TrainConfig, corpus: Corpus, scores: list[float] | None = None
    ) -> None:
        sampler = BatchSampler(model, "target", corpus.train, config.batch_size, seed=1)
        steps = len(corpus.train) // (config.batch_size * config.accumulate)
        super().__init__("train", model, config, {"target": sampler}, 1, steps_per_epoch=steps)
        self.rows, self.scores = corpus.train, scores
        self.seen: list[dict[str, torch.Tensor]] = []

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        n = self.config.batch_size
        rows = [self.rows[i % len(self.rows)] for i in range(step * n, (step + 1) * n)]
        prepared = [self.model.encoder.prepare(s.tokens) for s in rows]
        tags = [self.model.head("target").targets(s) for s in rows]
        return {"target": self.model.batch("target", rows, prepared, tags)}

    def validate(self) -> float | None:
        self.seen.append({k: v.clone() for k, v in self.model.state_dict().items()})
        return self.scores[len(self.seen) - 1] if self.scores else None


def _run(stage: TrainingStage, folder: Path) -> Progress:
    folder.mkdir(exist_ok=True, parents=True)
    with Processes("cpu") as processes, TrainLogger(folder, quiet=True) as logger:
        return Loop(stage, folder / "state", processes, logger).run()


def _same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], atol: float = 0.0) -> bool:
    return a.keys() == b.keys() and all(torch.allclose(a[k], b[k], atol=atol, rtol=0) for k in a)


def _log(folder: Path) -> list[dict[str, Any]]:
    return TrainLogger(folder, quiet=True).entries()


@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_accumulated_batches_equal_the_big_batch(
    new_model: Callable[..., TaggingModel], corpus: Corpus, tmp_path: Path, clip: float
) -> None:
    models = {}
    for parts in (1, 2, 4):
        config = TrainConfig(
            optimizer="sgd",
            lr=0.1,
            momentum=0.5,
            batch_size=8 // parts,
            accumulate=parts,
            epochs=2,
            clip=clip,
        )
        models[parts] = new_model()
        assert _run(Scripted(models[parts], config, corpus), tmp_path / str(parts)).step == 10
    assert not _same(models[1].state_dict(), new_model().state_dict(), 1e-3)
    for parts in (2, 4):
        assert _same(models[parts].state_dict(), models[1].state_dict(), 1e-5)
        for mine, theirs in zip(_log(tmp_path / str(parts)), _log(tmp_path / "1"), strict=True):
            assert mine["loss"] == pytest.approx(theirs["loss"], abs=1e-4)


def test_selection_keeps_the_first_of_the_best_epochs(
    new_model: Callable[..., TaggingModel], corpus: Corpus, tmp_path: Path
) -> None:
    stage = Scripted(new_model(0.1), TrainConfig(batch_size=8, epochs=5), corpus, [0.1, 0.5, 0.4, 0.5, 0.3])
    done = _run(stage, tmp_path)
    assert (done.best, done.best_step, done.step, done.finished) == (0.5, 10, 25, True)
    assert _same(stage.model.state_dict(), stage.seen[1])
    assert not _same(stage.model.state_dict(), stage.seen[4])
    assert [e["dev_f1"] for e in _log(tmp_path)] == [0.1, 0.5, 0.4, 0.5, 0.3]
    assert [p.name for p in (tmp_path / "state").iterdir()] == ["train.safetensors"]


def test_early_stopping(new_model: Callable[..., TaggingModel], corpus: Corpus, tmp_path: Path) -> None:
    config = TrainConfig(batch_size=8, epochs=9, patience=2)
    stage = Scripted(new_model(), config, corpus, [0.1, 0.3, 0.2, 0.4, 0.4, 0.3, 0.9, 0.9, 0.9])
    done = _run(stage, tmp_path)
    assert (done.step, done.best_step) == (
        30,
        20,
    )  # two epochs after the best, the equal one counts as no better
    assert _same(stage.model.state_dict(), stage.seen[3])


def test_without_dev_the_last_weights_stay(
    new_model: Callable[..., TaggingModel], corpus: Corpus, tmp_path: Path
) -> None:
    stage = Scripted(new_model(), TrainConfig(batch_size=8, epochs=2), corpus)
    assert _run(stage, tmp_path).best is None
    assert _same(stage.model.state_dict(), stage.seen[-1])


@pytest.mark.parametrize(("updates", "steps", "epochs"), [(7, 7, [1, 2]), (100, 10, [1, 2]), (5, 5, [1])])
def test_of_two_lengths_the_shorter_counts(
    new_model: Callable[..., TaggingModel],
    corpus: Corpus,
    tmp_path: Path,
    updates: int,
    steps: int,
    epochs: list[int],
) -> None:
    stage = Scripted(new_model(), TrainConfig(batch_size=8, epochs=2, updates=updates), corpus)
    assert _run(stage, tmp_path).step == steps
    assert [e["epoch"] for e in _log(tmp_path)] == epochs
    assert _log(tmp_path)[-1]["step"] == steps


def test_bf16_trains_single_precision_weights(
    new_model: Callable[..., TaggingModel], corpus: Corpus, tmp_path: Path
) -> None:
    config = TrainConfig(batch_size=8, epochs=4, lr=0.02, precision="bf16")
    stage = Scripted(new_model(), config, corpus)
    _run(stage, tmp_path)
    assert {p.dtype for p in stage.model.parameters()} == {torch.float32}
    losses = [e["loss"] for e in _log(tmp_path)]
    assert losses[-1] < 0.5 * losses[0]
    exact = Scripted(new_model(), TrainConfig(batch_size=8, epochs=4, lr=0.02), corpus)
    _run(exact, tmp_path / "exact")
    assert losses[0] == pytest.approx(_log(tmp_path / "exact")[0]["loss"], rel=0.02)
    assert losses != [e["loss"] for e in _log(tmp_path / "exact")]


class Stopping(Scripted):
    """Asks to stop, as Ctrl-C does, while it draws the batches of some steps."""

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        if step in self.at:
            signal.raise_signal(self.at.pop(step))
        return super().draw(step, rank, world)

    at: dict[int, int]


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd", "rmsprop"])
@pytest.mark.parametrize("patience", [0, 2])
def test_stopped_and_resumed_equals_never_stopped(
    new_model: Callable[..., TaggingModel], corpus: Corpus, tmp_path: Path, optimizer: Any, patience: int
) -> None:
    config = TrainConfig(
        optimizer=optimizer,
        momentum=0.9,
        lr=0.01,
        batch_size=8,
        epochs=6,
        patience=patience,
        schedule="linear",
    )
    scores = [0.1, 0.4, 0.3, 0.2, 0.5, 0.6]
    whole = Scripted(new_model(0.5), config, corpus, scores)
    expected = _run(whole, tmp_path / "whole")
    at = {2: signal.SIGINT, 4: signal.SIGTERM, 11: signal.SIGINT, 16: signal.SIGINT}
    stops, done, epochs = len(at), None, 0
    while done is None:
        stage = Stopping(new_model(0.5), config, corpus, scores[epochs:])
        stage.at = at
        try:
            done = _run(stage, tmp_path / "cut")
        except Interrupted:
            stops -= 1
        epochs += len(stage.seen)
    assert stops == 0
    assert _same(stage.model.state_dict(), whole.model.state_dict())
    assert (done.step, done.best, done.best_step) == (expected.step, expected.best, expected.best_step)
    for file in ("log.jsonl", "state/train.safetensors"):
        if file.endswith("jsonl"):
            assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
        else:
            mine, theirs = (load_tensors(tmp_path / name / file)[0] for name in ("cut", "whole"))
            assert _same(mine, theirs)


def test_a_finished_phase_is_loaded_not_run(
    new_model: Callable[..., TaggingModel], corpus: Corpus, tmp_path: Path
) -> None:
    config = TrainConfig(batch_size=8, epochs=2)
    first = Scripted(new_model(), config, corpus)
    _run(first, tmp_path)
    second = Scripted(new_model(), config, corpus)
    assert _run(second, tmp_path).step == 10
    assert second.seen == []
    assert _same(first.model.state_dict(), second.model.state_dict())


def test_a_checkpoint_of_another_model_is_refused(
    new_model: Callable[..., TaggingModel], corpus: Corpus, make_corpus: MakeCorpus, tmp_path: Path
) -> None:
    config = TrainConfig(batch_size=8, epochs=2)
    stage = Stopping(new_model(), config, corpus)
    stage.at = {3: signal.SIGINT}
    with pytest.raises(Interrupted, match="run the same command again"):
        _run(stage, tmp_path)
    other = new_model()
    other.encoder.learn_words(["more"])
    with pytest.raises(CheckpointError, match="shape") as error:
        _run(Scripted(other, config, corpus), tmp_path)
    assert error.value.place.endswith("train.checkpoint.safetensors")
    other = new_model()
    other.add_head("more", make_head("crf", corpus.label_space(), other.encoder.size))
    with pytest.raises(CheckpointError, match="parameters differ"):
        _run(Scripted(other, config, corpus), tmp_path)


def test_handlers_are_given_back_and_a_second_signal_stops_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Processes("cpu") as processes:
        assert not processes.stop_asked()
        signal.raise_signal(signal.SIGINT)
        assert processes.stop_asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("rate", [1e30, 1e36])
@pytest.mark.parametrize("kind", ["crf", "softmax"])
def test_training_that_diverged_stops(
    kind: str, rate: float, corpus: Corpus, tiny: dict[str, Any], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    encoder = make_encoder(build(Config, tiny).encoder, corpus.train)
    model = TaggingModel(encoder, {"target": make_head(kind, corpus.label_space(), encoder.size)})
    config = TrainConfig(lr=rate, batch_size=8, epochs=3)
    with pytest.raises(Diverged) as caught:
        _run(Scripted(model, config, corpus), tmp_path)
    assert caught.value.place == "stage 'train'"
    assert f"step 5 of 15 (learning rate {rate:g}, clip 5)" in caught.value.found
    assert f"--set train.lr={rate / 10:g}" in caught.value.fix
    assert _log(tmp_path) == []
    assert not list(tmp_path.glob("state/*"))


def test_no_checkpoint_of_weights_that_are_no_numbers(
    new_model: Callable[..., TaggingModel], corpus: Corpus, tmp_path: Path
) -> None:
    class Lost(Scripted):
        def gradients(self, batches: Any, backward: Any) -> dict[str, torch.Tensor]:
            logged = super().gradients(batches, backward)
            next(self.model.parameters()).grad.fill_(torch.nan)  # type: ignore[union-attr]
            return logged

    config = TrainConfig(batch_size=8, epochs=3, clip=0.0, checkpoint_steps=1)
    with pytest.raises(Diverged, match=r"weights are infinite or not numbers at step 1 of 15 .*clip off"):
        _run(Lost(new_model(), config, corpus), tmp_path)
    assert not list(tmp_path.glob("state/*"))


def test_the_mean_of_the_last_weights_is_kept_where_nothing_selects(
    new_model: Callable[..., TaggingModel], corpus: Corpus, tmp_path: Path
) -> None:
    stage = Scripted(new_model(), TrainConfig(batch_size=8, updates=10, average_last=0.4), corpus)
    _run(stage, tmp_path)  # up to 20 evaluations: one after every update
    expected = {k: torch.stack([seen[k] for seen in stage.seen[6:]]).mean(0) for k in stage.seen[0]}
    assert _same(stage.model.state_dict(), expected, 1e-6)
    assert not _same(stage.model.state_dict(), stage.seen[-1], 1e-4)


def test_a_score_selects_even_if_the_last_weights_could_be_averaged(
    new_model: Callable[..., TaggingModel], corpus: Corpus, tmp_path: Path
) -> None:
    scores = [0.1, 0.5, 0.4, 0.3, 0.2]
    stage = Scripted(new_model(), TrainConfig(batch_size=8, updates=5, average_last=0.4), corpus, scores)
    _run(stage, tmp_path)
    assert _same(stage.model.state_dict(), stage.seen[1])


@pytest.mark.parametrize("average", [0.0, 0.4])
def test_training_that_goes_on_ends_where_a_longer_one_does(
    new_model: Callable[..., TaggingModel], corpus: Corpus, tmp_path: Path, average: float
) -> None:
    def run(total: int, folder: str) -> TaggingModel:
        config = TrainConfig(batch_size=8, updates=6, lr=0.02, average_last=average)
        stage = Scripted(new_model(), config, corpus)
        (tmp_path / folder).mkdir(exist_ok=True)
        with Processes("cpu") as processes, TrainLogger(tmp_path / folder, quiet=True) as logger:
            done = Loop(stage, tmp_path / folder / "state", processes, logger, keep_last=True, total=total).run()
        assert done.step == total
        return stage.model

    run(6, "parts")
    in_parts, at_once = run(15, "parts"), run(15, "whole")
    assert _same(in_parts.state_dict(), at_once.state_dict())
    assert [e["step"] for e in _log(tmp_path / "parts")] == [e["step"] for e in _log(tmp_path / "whole")]


def test_going_on_keeps_better_weights_of_before(
    new_model: Callable[..., TaggingModel], corpus: Corpus, tmp_path: Path
) -> None:
    first = Scripted(new_model(), TrainConfig(batch_size=8, updates=3), corpus, [0.1, 0.9, 0.2])
    with Processes("cpu") as processes, TrainLogger(tmp_path, quiet=True) as logger:
        Loop(first, tmp_path / "state", processes, logger, keep_last=True).run()
        more = Scripted(new_model(), TrainConfig(batch_size=8, updates=3), corpus, [0.3, 0.4, 0.5])
        done = Loop(more, tmp_path / "state", processes, logger, keep_last=True, total=6).run()
    assert (done.best, done.best_step, done.step) == (0.9, 2, 6)
    assert _same(more.model.state_dict(), first.seen[1])


def test_a_kill_at_the_very_end_does_not_lose_the_best_weights(
    new_model: Callable[..., TaggingModel], corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loop(scores: list[float]) -> tuple[Scripted, Loop]:
        stage = Scripted(new_model(), TrainConfig(batch_size=8, updates=3), corpus, scores)
        processes, logger = Processes("cpu"), TrainLogger(tmp_path, quiet=True)
        return stage, Loop(stage, tmp_path / "state", processes, logger, keep_last=True)

    first, killed = loop([0.1, 0.9, 0.2])
    written = loop_module.save_tensors

    def fail_at_the_result(path: Path, *rest: Any) -> None:
        if path == killed.result_path:
            raise KeyboardInterrupt
        written(path, *rest)

    monkeypatch.setattr(loop_module, "save_tensors", fail_at_the_result)
    with pytest.raises(KeyboardInterrupt):
        killed.run()
    monkeypatch.undo()
    again, repeated = loop([])
    assert (repeated.run().best, repeated.progress.best_step) == (0.9, 2)
    assert _same(again.model.state_dict(), first.seen[1])


def test_a_stage_that_patience_ended_has_ended(
    new_model: Callable[..., TaggingModel], corpus: Corpus, tmp_path: Path
) -> None:
    def run(scores: list[float], total: int = 0) -> Progress:
        stage = Scripted(new_model(), TrainConfig(batch_size=8, updates=9, patience=2), corpus, scores)
        with Processes("cpu") as processes, TrainLogger(tmp_path, quiet=True) as logger:
            return Loop(stage, tmp_path / "state", processes, logger, keep_last=True, total=total).run()

    assert run([0.1, 0.9, 0.2, 0.3]).step == 4
    assert run([]).step == 4  # the same command again
    assert run([0.5, 0.95, 0.1, 0.1], total=12).step == 8  # asked to go on: patience begins anew
