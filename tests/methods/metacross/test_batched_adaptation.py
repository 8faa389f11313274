"""Batched steps against the plain loop: copy the weights, step, predict, restore."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nershift.config import EncoderConfig, build
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence
from nershift.encoders.base import make_encoder
from nershift.heads.base import make_head
from nershift.methods.metacross.adaptation import Adaptation
from nershift.methods.metacross.batched_adaptation import layer_changes
from nershift.methods.metacross.batched_adaptation.layout import Layout, windows
from nershift.methods.metacross.batched_adaptation.memory import task_bytes
from nershift.methods.metacross.batched_adaptation.per_task_update import PerTaskUpdate, uncovered
from nershift.methods.metacross.inner_update import StepRule, inner_update, trained_parameters
from nershift.methods.metacross.options import MetaCrossOptions
from nershift.methods.metacross.token_classifier import sentence_losses
from nershift.model import Batch, TaggingModel
from tiny_encoders import make_encoder_folder

pytest.importorskip("transformers")

KINDS = ("bert", "distilbert", "roberta", "mpnet")
RULES = {
    "sgd": StepRule("sgd", 0.05),
    "clipped": StepRule("sgd", 0.05, clip=0.3),
    "adam": StepRule("adam", 0.01),
    "released": StepRule("released", 0.003, clip=0.5, weight_decay=0.1),
}
# Adam divides by the size of a gradient: where that is next to nothing, rounding is what it steps by.
BOUNDS = {rule: 1e-6 if "sgd" in rule or "clip" in rule else 1e-4 for rule in RULES}
SUPPORTS = [
    Sentence.of(["Ada", "flew", "from", "Leeds", "to", "Porto", "."], [(0, 1, "PER"), (3, 4, "LOC"), (5, 6, "LOC")]),
    Sentence.of(["In", "Graz", ",", "Lindqvist", "met", "Moreau", "Tanaka", "."], [(1, 2, "LOC"), (5, 7, "PER")]),
    Sentence.of(["Nobody", "in", "Lima", "spoke", "in", "1998", "."], [(2, 3, "LOC")]),
    Sentence.of(("dr Novak informed Ada and Ruiz in Turku " * 3).split(), [(1, 2, "PER"), (7, 8, "LOC")]),
]
QUERIES = [
    Sentence.of(["Moreau", "flew", "to", "Graz"]),
    Sentence.of(["pt", "Ruiz", "given", "20mg", "zolpirex", "in", "Turku"]),
    Sentence.of(("Nobody met Lindqvist in Lima , " * 4).split()),
    Sentence.of(["Ada"]),
]
TASKS = [[0, 1], [1, 2], [3, 0], [2, 1]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: make_encoder_folder(kind, tmp_path_factory.mktemp(kind)) for kind in KINDS}


def make_model(folder: Path, **transformer: Any) -> TaggingModel:
    torch.manual_seed(1)
    values = {
        "kind": "transformer",
        "transformer": {"name": str(folder), "max_subwords": 20, "overlap": 4, **transformer},
        "chars": {"use": False},
        "dropout": 0.0,
    }
    encoder = make_encoder(build(EncoderConfig, values), [])
    return TaggingModel(encoder, {"k": make_head("softmax", LabelSpace.of(["LOC", "PER"], "BIO"), encoder.size)}).eval()


def batch(model: TaggingModel, sentences: list[Sentence]) -> tuple[Batch, list[Any]]:
    prepared = [model.encoder.prepare(s.tokens) for s in sentences]
    return model.batch("k", sentences, prepared, [model.head("k").targets(s) for s in sentences]), prepared


def scores(model: TaggingModel, made: Batch) -> Tensor:
    return model.head("k").project(model.states(made))


def by_copies(model: TaggingModel, rule: StepRule, steps: int = 1) -> list[Tensor]:
    """The oracle: a deep copy a task, gradients by backward, the optimisers of torch."""
    out = []
    for query, task in zip(QUERIES, TASKS, strict=True):
        own = copy.deepcopy(model)
        optimizer = rule.optimizer(own.parameters())
        for _ in range(steps):
            optimizer.zero_grad()
            sentence_losses(own, batch(own, [SUPPORTS[i] for i in task])[0]).sum().backward()
            if rule.kind == "sgd" and rule.clip:
                for p in own.parameters():
                    if p.grad is not None:
                        nn.utils.clip_grad_norm_([p], rule.clip)
            optimizer.step()
        with torch.no_grad():
            out.append(scores(own, batch(own, [query])[0])[0, : len(query)])
    return out


def at_once(model: TaggingModel, rule: StepRule, steps: int = 1) -> list[Tensor]:
    query, ready = batch(model, QUERIES)
    with PerTaskUpdate(model, rule) as update:
        support, prepared = batch(model, SUPPORTS)
        update.step(lambda: sentence_losses(model, support).sum(), Layout(windows(prepared), TASKS))
        own, mine = batch(model, [SUPPORTS[i] for task in TASKS for i in task])
        for _ in range(steps - 1):
            layout = Layout(windows(mine), [[2 * t, 2 * t + 1] for t in range(len(TASKS))])
            update.step(lambda: sentence_losses(model, own).sum(), layout)
        with torch.no_grad(), update.applied(Layout.one_each(windows(ready))):
            out = scores(model, query)
    return [row[: len(q)] for row, q in zip(out, QUERIES, strict=True)]


def error(found: list[Tensor], expected: list[Tensor], plain: list[Tensor]) -> tuple[float, float]:
    """Relative error of the scores, and of what adaptation changed in them."""
    a, b, c = torch.cat(found), torch.cat(expected), torch.cat(plain)
    return float((a - b).norm() / b.norm()), float((a - b).norm() / (b - c).norm())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_many_tasks_at_once_equal_a_copy_for_each(folders: dict[str, Path], kind: str, rule: str) -> None:
    """Everything learns: tables, positions, relative positions, norms; some sentences have several windows."""
    model = make_model(folders[kind])
    assert max(windows(batch(model, SUPPORTS)[1])) > 1
    assert not uncovered(model)
    plain = [scores(model, batch(model, [q])[0])[0].detach() for q in QUERIES]
    of_scores, of_change = error(at_once(model, RULES[rule]), by_copies(model, RULES[rule]), plain)
    assert of_scores < 1e-4
    # Adam divides gradients by their size, which makes noise of those that are zero but for rounding.
    assert of_change < (1e-4 if rule in ("sgd", "clipped") else 1e-2)


@pytest.mark.parametrize("rule", RULES)
def test_every_kind_of_parameter_is_right_by_itself(folders: dict[str, Path], rule: str) -> None:
    """In double precision, with all but one parameter frozen."""
    kinds = [
        ("bert", "word_embeddings"), ("bert", "position_embeddings"), ("bert", "token_type_embeddings"),
        ("bert", "layer.1.attention.self.query.weight"), ("bert", "layer.0.attention.output.LayerNorm.weight"),
        ("bert", "layer.2.output.dense.bias"), ("bert", "project.weight"), ("bert", "layer.0.output.LayerNorm.bias"),
        ("mpnet", "relative_attention_bias"), ("mpnet", "layer.1.attention.attn.v.weight"),
    ]  # fmt: skip
    for kind, name in kinds:
        model = make_model(folders[kind]).double()
        for n, p in model.named_parameters():
            p.requires_grad_(name in n)
        assert trained_parameters(model)
        plain = [scores(model, batch(model, [q])[0])[0].detach() for q in QUERIES]
        expected = by_copies(model, RULES[rule])
        found = error(at_once(model, RULES[rule]), expected, plain)[1]
        assert found < BOUNDS[rule], (kind, name)


def test_a_large_table_is_not_formed(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_changes, "_SMALL", 0)
    for name, rule in RULES.items():
        model = make_model(folders["bert"]).double()
        for n, p in model.named_parameters():
            p.requires_grad_("embeddings" in n)
        plain = [scores(model, batch(model, [q])[0])[0].detach() for q in QUERIES]
        assert error(at_once(model, rule), by_copies(model, rule), plain)[1] < BOUNDS[name]


@pytest.mark.parametrize("rule", RULES)
def test_several_steps(folders: dict[str, Path], rule: str) -> None:
    model = make_model(folders["bert"], freeze_embeddings=True, freeze_layers=1).double()
    plain = [scores(model, batch(model, [q])[0])[0].detach() for q in QUERIES]
    found = error(at_once(model, RULES[rule], 3), by_copies(model, RULES[rule], 3), plain)
    assert found[1] < BOUNDS[rule]


@pytest.mark.parametrize("rule", RULES)
def test_reading_gives_the_first_order_meta_gradient(folders: dict[str, Path], rule: str) -> None:
    model = make_model(folders["mpnet"]).double()
    made = [(batch(model, [q])[0], batch(model, [SUPPORTS[i] for i in t])[0]) for q, t in zip(QUERIES, TASKS)]  # noqa: B905
    expected = [torch.zeros_like(p) for p in trained_parameters(model)]
    for query, support in made:
        with inner_update(model, RULES[rule], 2, support, weight=2.0):
            grads = torch.autograd.grad(sentence_losses(model, query, 2.0).sum(), trained_parameters(model))
        for total, grad in zip(expected, grads, strict=True):
            total += grad
    query, ready = batch(model, QUERIES)
    own, mine = batch(model, [SUPPORTS[i] for task in TASKS for i in task])
    layout = Layout(windows(mine), [[2 * t, 2 * t + 1] for t in range(len(TASKS))])
    with PerTaskUpdate(model, RULES[rule]) as update:
        for _ in range(2):
            update.step(lambda: sentence_losses(model, own, 2.0).sum(), layout)
        with update.applied(Layout.one_each(windows(ready))):
            loss = sentence_losses(model, query, 2.0).sum()
    loss.backward()
    for total, p in zip(expected, trained_parameters(model), strict=True):
        assert p.grad is not None
        assert (p.grad - total).norm() <= BOUNDS[rule] * total.norm() + 1e-12


def test_nothing_is_left_behind(folders: dict[str, Path]) -> None:
    model = make_model(folders["mpnet"])
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    states = model.states(batch(model, QUERIES)[0])
    at_once(model, RULES["sgd"])
    Adaptation(model, "k", options(RULES["adam"]), batched=False).predict(QUERIES, SUPPORTS, TASKS)
    assert all(torch.equal(before[n], p) for n, p in model.named_parameters())
    assert all(p.grad is None for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    torch.testing.assert_close(model.states(batch(model, QUERIES)[0]), states, rtol=0, atol=0)


def options(rule: StepRule, **more: Any) -> MetaCrossOptions:
    return MetaCrossOptions(rule=rule.kind, adapt_lr=rule.rate, clip=rule.clip, weight_decay=rule.weight_decay, **more)


def test_sentences_are_predicted_alike_one_by_one_and_together(folders: dict[str, Path]) -> None:
    model = make_model(folders["distilbert"])
    queries = [*QUERIES, Sentence.of([])]
    tasks = [*TASKS, [0, 1]]
    plain = model.predict("k", queries)
    for rule in (StepRule("sgd", 0.5), StepRule("adam", 0.03)):
        one, many, tight = (
            Adaptation(model, "k", options(rule, memory=memory), batched).predict(queries, SUPPORTS, tasks)
            for memory, batched in ((2.0, False), (2.0, True), (1e-9, True))
        )
        assert one == many == tight
        assert one != plain
        for a, b in zip(one, many, strict=True):
            assert [x.score for x in a.spans] == pytest.approx([x.score for x in b.spans], abs=1e-4)


def test_the_batch_shrinks_when_memory_is_short(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(folders["bert"])
    adaptation = Adaptation(model, "k", options(RULES["sgd"]))
    expected = adaptation.predict(QUERIES, SUPPORTS, TASKS)
    sizes = []
    whole = Adaptation._group

    def short(self: Adaptation, queries: Any, *rest: Any) -> Any:
        sizes.append(len(queries))
        if len(queries) > 1:
            raise torch.OutOfMemoryError("no memory")
        return whole(self, queries, *rest)

    monkeypatch.setattr(Adaptation, "_group", short)
    assert adaptation.predict(QUERIES, SUPPORTS, TASKS) == expected
    assert sizes == [4, 2, 1, 1, 1, 1]


def test_parameters_without_a_batched_step_are_adapted_one_by_one(
    folders: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    model = make_model(folders["bert"])
    model.encoder.odd = nn.Parameter(torch.zeros(3))
    assert uncovered(model) == ["encoder.odd"]
    adaptation = Adaptation(model, "k", options(RULES["sgd"]))
    assert not adaptation.batched
    assert "encoder.odd" in caplog.text
    assert len(adaptation.predict(QUERIES, SUPPORTS, TASKS)) == 4


def test_memory_estimate_grows_with_what_is_held() -> None:
    layer = nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 8))
    sgd, adam = StepRule("sgd"), StepRule("adam")
    assert task_bytes(layer, sgd, 20) == 2 * task_bytes(layer, sgd, 10)
    assert task_bytes(layer, adam, 10) > task_bytes(layer, sgd, 10)
    assert 2 * task_bytes(layer, sgd, 10, "bf16") == task_bytes(layer, sgd, 10)


@pytest.mark.parametrize("rule", RULES)
def test_half_precision_moves_scores_the_same_way(folders: dict[str, Path], rule: str) -> None:
    """Of what a step does to the scores, bf16 keeps most; in the loop too, where weights change under autocast."""
    model = make_model(folders["bert"], freeze_embeddings=True, freeze_layers=1)
    plain = torch.cat([scores(model, batch(model, [q])[0])[0].detach() for q in QUERIES])
    exact = torch.cat(by_copies(model, RULES[rule], 2)) - plain
    with torch.autocast("cpu", torch.bfloat16):
        rounded = torch.cat([scores(model, batch(model, [q])[0])[0].detach() for q in QUERIES]).float()
        together = torch.cat(at_once(model, RULES[rule], 2)).float() - rounded
        alone = []
        for query, task in zip(QUERIES, TASKS, strict=True):
            with inner_update(model, RULES[rule], 2, batch(model, [SUPPORTS[i] for i in task])[0]):
                alone.append(scores(model, batch(model, [query])[0])[0].detach().float())
    for found in (together, torch.cat(alone) - rounded):
        assert torch.nn.functional.cosine_similarity(found.flatten(), exact.flatten(), 0) > 0.95
        assert found.norm() == pytest.approx(float(exact.norm()), rel=0.2)


def test_adaptation_in_half_precision(folders: dict[str, Path]) -> None:
    model = make_model(folders["roberta"])
    rule = StepRule("sgd", 0.5)
    exact, half = (
        Adaptation(model, "k", options(rule, adapt_precision=p)).predict(QUERIES, SUPPORTS, TASKS)
        for p in ("fp32", "bf16")
    )
    assert sum(a.spans == b.spans for a, b in zip(exact, half, strict=True)) >= 3
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_rows_of_a_task_that_lie_together_are_read_as_one() -> None:
    together, apart = Layout([1] * 4, [[0, 1], [2, 3]]), Layout([1] * 4, [[0, 2], [1, 3]])
    x, of_task = torch.randn(4, 3, 5), torch.tensor([[1.0], [2.0]])
    assert together.folded(x).shape == (2, 6, 5)
    assert apart.folded(x).shape == (4, 3, 5)
    assert together.of_folded(of_task, 4) is of_task
    assert apart.of_folded(of_task, 4).flatten().tolist() == [1, 2, 1, 2]
