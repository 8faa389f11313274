"""Episodes against copies of the model and plain optimisers; learned rates against differences of the whole map."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from looped import run_loop
from nershift.config import TrainConfig
from nershift.data.corpus import Corpus
from nershift.encoders.learned_rates import LearnedRates, layer_of
from nershift.errors import ConfigError, Interrupted
from nershift.heads.base import head_from, start_from_best
from nershift.heads.start import start_new_rows
from nershift.methods.metaner.episodes import Episode, EpisodeStage, fresh_head, in_passes, split
from nershift.model import Batch, TaggingModel
from nershift.model_store import load_model, save_model
from nershift.training.optim import make_optimizer, scale_rates
from nershift.training.seeding import generator, seed_torch
from nershift.training.stage import TrainingStage

Make = Callable[..., Any]
SMALL = {"episodes": True, "support_min": 3, "support_max": 8, "inner_updates": 4, "episode_batch": 2, "query": 6}
STILL = {"dropout": 0.0, "input_dropout": 0.0, "words": {"word_dropout": 0.0}}


@pytest.fixture
def make_stage(make_method: Make, heterogeneous: list[Corpus]) -> Callable[..., EpisodeStage]:
    def make(sources: list[Corpus] = heterogeneous, settings: Any = None, **options: Any) -> EpisodeStage:
        given = {"options": SMALL | options, "train": {"lr": 0.01}} | (settings or {})
        stage = make_method("metaner", sources, settings=given).pretrain()
        stage.model.double()
        stage.model.train()
        return stage

    return make


def run(stage: TrainingStage, step: int = 0) -> dict[str, Tensor]:
    stage.model.zero_grad()
    seed_torch(1, step)
    stage.gradients(stage.draw(step, 0, 1), Tensor.backward)
    return {n: p.grad.clone() for n, p in stage.model.named_parameters() if p.grad is not None}


def slow(stage: EpisodeStage, optimizer: type[torch.optim.Optimizer], clip: float, step: int = 0) -> dict[str, Tensor]:
    """The same, by a copy of the model that is trained and thrown away."""
    stage.model.zero_grad()
    seed_torch(1, step)
    plain, *support, query = stage.draw(step, 0, 1).values()
    stage.model(plain).backward()
    found = {n: p.grad.clone() for n, p in stage.model.named_parameters() if p.grad is not None}
    head = fresh_head(stage.model, support, stage.options.keep_rows, stage.new_rows)
    model = TaggingModel(copy.deepcopy(stage.model.encoder), {query.key: head})
    inner = optimizer(model.parameters(), lr=0.01)
    for batch in support:
        inner.zero_grad()
        model(batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        inner.step()
    inner.zero_grad()
    model(query).backward()
    for name, start in stage.model.encoder.named_parameters():
        end = model.encoder.get_parameter(name)
        found[f"encoder.{name}"] += end.grad if stage.options.outer == "maml" else start.detach() - end.detach()
    return found


@pytest.mark.parametrize("outer", ["maml", "reptile"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("keep_rows", [0.0, 1.0])
def test_gradients_are_those_of_a_copy_that_was_trained(
    make_stage: Callable[..., EpisodeStage], outer: str, optimizer: str, keep_rows: float
) -> None:
    train = {"optimizer": optimizer, "lr": 0.01, "weight_decay": 0.0, "clip": 0.5}
    stage = make_stage(settings={"train": train}, outer=outer, keep_rows=keep_rows)
    for step in range(3):
        found = run(stage, step)
        expected = slow(stage, {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer], clip=0.5, step=step)
        assert set(found) == set(expected)
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=1e-6, atol=1e-9)


def test_weights_and_earlier_gradients_come_back_exactly(make_stage: Callable[..., EpisodeStage]) -> None:
    stage = make_stage()
    before = copy.deepcopy(stage.model.state_dict())
    *support, query = stage.draw_episode(0, 0)
    stage.model(query).backward()
    gradients = {n: p.grad.clone() for n, p in stage.model.named_parameters() if p.grad is not None}
    model = TaggingModel(stage.model.encoder, {query.key: fresh_head(stage.model, support, 0.0, "auto")})
    episode = Episode(model, stage.inner)
    episode.run(support, query)
    assert max(float(move.abs().max()) for move in episode.moves) > 0
    for name, value in stage.model.state_dict().items():
        assert torch.equal(value, before[name]), name
    for name, value in gradients.items():
        assert torch.equal(stage.model.get_parameter(name).grad, value), name


def test_an_episode_that_fails_leaves_the_weights_too(make_stage: Callable[..., EpisodeStage]) -> None:
    stage = make_stage()
    before = copy.deepcopy(stage.model.state_dict())
    batches = stage.draw(0, 0, 1)
    batches[list(batches)[-1]].targets = None  # a query without labels
    with pytest.raises(Exception, match="raw text"):
        stage.gradients(batches, Tensor.backward)
    assert all(torch.equal(value, before[name]) for name, value in stage.model.state_dict().items())


def test_without_episodes_it_is_fine_tuning(make_method: Make, heterogeneous: list[Corpus], tmp_path: Path) -> None:
    """The control has the same batches and the same updates."""
    options = SMALL | {"episode_weight": 0.0}
    control = make_method("metaner", heterogeneous, settings={"options": options}).pretrain()
    assert isinstance(control, EpisodeStage)
    assert control.passes_per_step == 1
    plain = make_method("finetune", heterogeneous).pretrain()
    assert control.budget == plain.budget
    expected, found = run_loop(plain, tmp_path / "plain"), run_loop(control, tmp_path / "control")
    assert all(torch.equal(found[n], value) for n, value in expected.items())


def test_the_plain_batch_trains_the_heads_that_are_kept(make_stage: Callable[..., EpisodeStage]) -> None:
    stage = make_stage()
    (name, plain), *_ = stage.draw(0, 0, 1).items()
    found = run(stage)
    heads = {key for key, head in stage.model.named_heads() if head.project.weight.grad is not None}
    assert heads == {name}
    seed_torch(1, 0)
    (expected,) = torch.autograd.grad(stage.model(plain), stage.model.head(name).project.weight)
    torch.testing.assert_close(found[f"heads.for:{name}.project.weight"], expected)


# -- what is drawn -----------------------------------------------------------------------------------------


def test_draws_depend_on_seed_and_step_alone(make_stage: Callable[..., EpisodeStage]) -> None:
    one, other = make_stage(), make_stage()
    other.draw(9, 0, 1)
    for step in (3, 4):
        sentences = [[b.sentences for b in stage.draw(step, 0, 1).values()] for stage in (one, other)]
        assert sentences[0] == sentences[1]
    assert [b.sentences for b in one.draw_episode(3, 0)] != [b.sentences for b in one.draw_episode(4, 0)]


def test_every_source_has_its_turn_and_processes_share_it(make_stage: Callable[..., EpisodeStage]) -> None:
    stage = make_stage()
    drawn = [stage.draw_episode(step, 0) for step in range(40)]
    assert {batches[0].key for batches in drawn} == set(stage.samplers)
    for step, batches in enumerate(drawn[:5]):
        assert len({batch.key for batch in batches}) == 1
        there = stage.draw_episode(step, 1)
        assert [(b.key, len(b)) for b in there] == [(b.key, len(b)) for b in batches]
        assert [b.sentences for b in there] != [b.sentences for b in batches]


def test_support_and_query_have_no_sentence_in_common(heterogeneous: list[Corpus]) -> None:
    sentences = [s.with_spans(()) if i % 4 else s for i, s in enumerate(heterogeneous[0].train)]
    for size in (1, 5, 8):
        support, query = split(sentences, size, 10, generator(size))
        assert (len(support), len(query)) == (size, 10)
        assert not set(support) & set(query)
        assert sum(bool(sentences[i].spans) for i in support) >= size / 2
    support, query = split(sentences, 1000, 1000, generator(0))
    assert len(support) == len(query) == len(sentences) // 2
    assert split(sentences[:1], 5, 5, generator(0)) == ([0], [0])


def test_updates_pass_over_the_support() -> None:
    batches = in_passes(range(5), updates=7, batch_size=2, rng=generator(0))
    assert [len(b) for b in batches] == [2, 2, 1, 2, 2, 1, 2]
    assert sorted([*chain(*batches[:3])]) == sorted([*chain(*batches[3:6])]) == list(range(5))
    assert batches[:3] != batches[3:6]


# -- the new head ------------------------------------------------------------------------------------------


def support_of(stage: EpisodeStage, name: str) -> list[Batch]:
    return [stage.samplers[name].as_labelled([0, 1, 2]), stage.samplers[name].as_labelled([2, 3])]


def test_a_new_head_has_no_row_of_its_own_source(make_stage: Callable[..., EpisodeStage]) -> None:
    stage = make_stage()
    model, key = stage.model, "builtin-news"
    support = support_of(stage, key)
    seed_torch(0)
    first, second = (fresh_head(model, support, 0.0, "random") for _ in range(2))
    assert first.types == model.head(key).types
    assert not torch.equal(first.project.weight, second.project.weight)
    assert not first.kept_rows
    kept = fresh_head(model, support, 1.0, "random")
    others = {t for name, head in model.named_heads() if name != key for t in head.types}
    assert set() < set(kept.kept_rows) <= set(kept.types) & others
    for label in kept.kept_rows:
        row = kept.space.index[f"B-{label}"]
        assert not torch.equal(kept.project.weight[row], model.head(key).project.weight[row])


def test_a_new_head_starts_as_that_of_a_target(make_stage: Callable[..., EpisodeStage]) -> None:
    stage = make_stage()
    support = support_of(stage, "builtin-news")
    for keep in (0.0, 1.0):
        seed_torch(2)
        head = fresh_head(stage.model, support, keep, "prototypes")
        seed_torch(2)
        expected = head_from(stage.model.head("builtin-news").describe(), stage.model.encoder.size).double()
        if keep:
            start_from_best(expected, [h for k, h in stage.model.named_heads() if k != "builtin-news"], {})
        start_new_rows(expected, stage.model.encoder, stage.samplers["builtin-news"].sentences[:4], "prototypes")
        assert head.new_rows == expected.new_rows
        assert "from prototypes of the labelled sentences" in head.new_rows.values()
        for name, value in expected.state_dict().items():
            torch.testing.assert_close(head.state_dict()[name], value)


def test_where_sources_share_a_head_its_rows_are_kept(
    make_stage: Callable[..., EpisodeStage], homogeneous: list[Corpus]
) -> None:
    stage = make_stage(homogeneous)
    support = support_of(stage, "builtin-news")
    kept, new = (fresh_head(stage.model, support, keep, "random") for keep in (1.0, 0.0))
    assert torch.equal(kept.project.weight, stage.model.head("shared").project.weight)
    assert not torch.equal(new.project.weight, kept.project.weight)


@pytest.mark.parametrize(
    "settings", [{"head": {"from_source": False}}, {"options": SMALL | {"new_head": True}}], ids=str
)
def test_heads_keep_no_rows_where_the_target_keeps_none(
    make_stage: Callable[..., EpisodeStage], settings: dict[str, Any]
) -> None:
    assert make_stage().options.keep_rows > 0
    assert make_stage(settings=settings).options.keep_rows == 0


# -- learned rates -----------------------------------------------------------------------------------------


def query_loss(stage: EpisodeStage, support: list[Batch], query: Batch) -> tuple[float, Episode]:
    seed_torch(5)
    model = TaggingModel(stage.model.encoder, {query.key: fresh_head(stage.model, support, 0.0, "auto")})
    episode = Episode(model, stage.inner, stage.rates)
    episode.run(support, query)
    return float(episode.logged["query_loss"]), episode


def test_the_gradient_of_rates_is_that_of_the_whole_map(make_stage: Callable[..., EpisodeStage]) -> None:
    """With one update there is nothing that first order leaves out."""
    settings = {"train": {"optimizer": "sgd", "lr": 0.5}, "encoder": STILL}
    stage = make_stage(settings=settings, learned_rates=True, inner_updates=1)
    rates = stage.model.extras["learned_rates"]
    assert isinstance(rates, LearnedRates)
    assert rates.layers == ["words", "chars", "chars.convolutions.0", "chars.convolutions.1", "recurrent"]
    rates.log.data += torch.linspace(-0.5, 0.5, len(rates.layers))
    *support, query = stage.draw_episode(0, 0)
    _, episode = query_loss(stage, support, query)
    found = rates.gradient(list(episode.theta), episode.slopes, episode.moves)
    for layer in range(len(rates.layers)):
        ends = []
        for sign in (1, -1):
            rates.log.data[layer] += sign * 1e-5
            ends.append(query_loss(stage, support, query)[0])
            rates.log.data[layer] -= sign * 1e-5
        assert float(found[layer]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4)


def test_with_more_updates_their_directions_count_as_constant(make_stage: Callable[..., EpisodeStage]) -> None:
    stage = make_stage(settings={"encoder": STILL}, learned_rates=True)
    stage.rates.log.data += 0.3
    *support, query = stage.draw_episode(0, 0)
    seed_torch(5)
    head = fresh_head(stage.model, support, 0.0, "auto")
    model = TaggingModel(stage.model.encoder, {query.key: head})
    episode = Episode(model, stage.inner, stage.rates)
    episode.run(support, query)
    found = stage.rates.gradient(list(episode.theta), episode.slopes, episode.moves)
    for number, layer in enumerate(stage.rates.layers):
        ends = []
        for sign in (1, -1):
            moved = copy.deepcopy(model)
            for (name, p), move in zip(moved.encoder.named_parameters(), episode.moves, strict=True):
                p.data += move * (math.exp(sign * 1e-5) if layer_of(name) == layer else 1.0)
            ends.append(float(moved(query).detach()))
        assert float(found[number]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3, abs=1e-7)


def test_learned_rates_get_their_gradient_in_a_step_and_scale_the_moves(
    make_stage: Callable[..., EpisodeStage],
) -> None:
    stage = make_stage(learned_rates=True, outer="reptile")
    found = run(stage)
    assert found["extras.learned_rates.log"].abs().sum() > 0
    *support, query = stage.draw_episode(0, 0)
    still = query_loss(stage, support[:1], query)[1].moves
    stage.rates.log.data[-1] = torch.tensor(3.0).log()
    faster = query_loss(stage, support[:1], query)[1]
    for name, slow_move, move in zip(faster.theta, still, faster.moves, strict=True):
        torch.testing.assert_close(move, slow_move * (3 if layer_of(name) == "recurrent" else 1))


def test_scaled_rates_follow_the_schedule_of_their_group() -> None:
    a, b, c = (nn.Parameter(torch.zeros(1)) for _ in range(3))
    optimizer = torch.optim.Adam(
        [{"params": [a, b], "lr": 0.1, "base_lr": 0.2}, {"params": [c], "lr": 1, "base_lr": 1}]
    )
    scale_rates(optimizer, {b: 3.0})
    found = [(g["params"], g["lr"], g["base_lr"]) for g in optimizer.param_groups]
    assert found == [([a], 0.1, 0.2), ([b], pytest.approx(0.3), pytest.approx(0.6)), ([c], 1, 1)]


def test_learned_rates_reach_the_targets_optimiser_by_way_of_a_folder(
    make_method: Make, heterogeneous: list[Corpus], tmp_path: Path
) -> None:
    *sources, target = heterogeneous
    method = make_method("metaner", sources, target, settings={"options": SMALL | {"learned_rates": True}})
    stage = method.pretrain()
    assert len(make_optimizer(stage.config, stage.model).param_groups) == 3  # not while they are learned
    stage.rates.log.data[-1] = math.log(3)
    save_model(tmp_path, stage.model, {})
    target_stage = method.train(load_model(tmp_path)[0])
    groups = make_optimizer(target_stage.config, target_stage.model).param_groups
    rates = {id(p): group["base_lr"] for group in groups for p in group["params"]}
    encoder, lr = target_stage.model.encoder, target_stage.config.lr
    assert rates[id(encoder.recurrent.weight_ih_l0)] == pytest.approx(3 * lr)
    assert rates[id(encoder.chars.embedding.weight)] == lr
    assert not any(
        p is target_stage.model.learned_rates.log for p in target_stage.model.parameters() if p.requires_grad
    )


def test_the_target_gets_the_learned_rates(make_method: Make, heterogeneous: list[Corpus]) -> None:
    *sources, target = heterogeneous
    for learned in (True, False):
        settings = {"options": SMALL | {"learned_rates": learned, "new_head": True}}
        method = make_method("metaner", sources, target, settings=settings)
        start = method.pretrain().model
        model = method.train(start).model
        assert ("learned_rates" in model.extras) == learned
    rates = LearnedRates(model.encoder)
    assert set(rates.factors(model.encoder)) == {p for p in model.encoder.parameters() if p.requires_grad}


# -- as a stage --------------------------------------------------------------------------------------------


def test_passes_are_counted(make_stage: Callable[..., EpisodeStage]) -> None:
    counts = {"maml": 6, "reptile": 5}  # four updates, the plain batch, the query
    for outer, count in counts.items():
        stage = make_stage(settings={"head": {"new_rows": "prototypes"}}, outer=outer, keep_rows=0.0)
        calls = []
        stage.model.encoder.register_forward_hook(lambda *_, calls=calls: calls.append(torch.is_grad_enabled()))
        logged = stage.gradients(stage.draw(0, 0, 1), Tensor.backward)
        assert len(calls) == sum(calls) + 1  # prototypes need a pass forward
        assert sum(calls) == stage.passes_per_step == int(logged["passes"]) == count
    assert make_stage(outer="reptile", learned_rates=True).passes_per_step == 6


def test_accumulated_parts_add_up_to_their_mean(make_stage: Callable[..., EpisodeStage]) -> None:
    settings = {"encoder": STILL, "pretrain": {"accumulate": 2}}
    stage, plain = make_stage(settings=settings), make_stage(settings={"encoder": STILL})
    for _ in range(2):
        seed_torch(1, 0)
        stage.gradients(stage.draw(0, 0, 1), lambda loss: (loss / 2).backward())
    for name, value in run(plain).items():
        torch.testing.assert_close(stage.model.get_parameter(name).grad, value)


@pytest.mark.parametrize("outer", ["maml", "reptile"])
def test_a_resumed_run_ends_with_the_same_weights(
    make_method: Make, heterogeneous: list[Corpus], tmp_path: Path, outer: str
) -> None:
    settings = {"pretrain": {"updates": 7}, "options": SMALL | {"outer": outer, "learned_rates": True}}

    def stage() -> EpisodeStage:
        return make_method("metaner", heterogeneous, settings=settings).pretrain()

    whole = run_loop(stage(), tmp_path / "whole")
    for stop in (2, 5):
        with pytest.raises(Interrupted):
            run_loop(stage(), tmp_path / "cut", stop_after=stop)
    resumed = run_loop(stage(), tmp_path / "cut")
    assert whole["extras.learned_rates.log"].abs().sum() > 0
    assert all(torch.equal(resumed[n], value) for n, value in whole.items())


def test_inner_updates_train_as_the_target_does_unless_told_otherwise(make_stage: Callable[..., EpisodeStage]) -> None:
    train = {"lr": 0.3, "encoder_lr": 0.2, "optimizer": "sgd"}
    inner = make_stage(settings={"train": train}).inner
    assert (inner.lr, inner.encoder_lr, inner.optimizer) == (0.3, 0.2, "sgd")
    inner = make_stage(settings={"train": train}, episode_lr=0.1).inner
    assert (inner.lr, inner.encoder_lr, inner.optimizer) == (0.1, None, "sgd")
    assert isinstance(inner, TrainConfig)


@pytest.mark.parametrize("options", [{"meta": False}, {"order": "second"}, {"support_min": 60}], ids=str)
def test_what_episodes_would_ignore_is_refused(
    make_method: Make, heterogeneous: list[Corpus], options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=r"Algorithm 1|support_max"):
        make_method("metaner", heterogeneous, settings={"options": {"episodes": True} | options}).check()
