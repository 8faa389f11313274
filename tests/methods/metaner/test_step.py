"""Algorithm 1 against explicit copies of the model, its second order against differences of the whole map."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from nershift.methods.adversary import Discriminator
from nershift.methods.metaner.method import iteration_of
from nershift.methods.metaner.step import MetaNEROptions

SIZE, TAGS, DOMAINS, ALPHA, LAMBDA = 5, 3, 4, 0.1, 0.8


class Model(nn.Module):
    """θ: a small recurrent encoder; φ: linear heads, one shared or one a domain; γ: the discriminator."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.encoder = nn.GRU(4, SIZE, batch_first=True)
        self.heads = nn.ModuleList(nn.Linear(SIZE, TAGS) for _ in range(heads))
        self.discriminator = Discriminator(SIZE, DOMAINS, hidden=6)


class Data:
    """Four domains, the last of which validates, in the shape of ``Tasks``."""

    def __init__(self, shared: bool, dtype: torch.dtype = torch.float64, own_heads: bool | None = None) -> None:
        torch.manual_seed(3)
        self.model = Model(1 if shared else DOMAINS).to(dtype)
        self.x = [torch.randn(6, 7, 4, dtype=dtype) for _ in range(DOMAINS)]
        self.y = [torch.randint(TAGS, (6, 7)) for _ in range(DOMAINS)]
        self.mask = torch.ones(6, 7).bool()
        self.validation, self.adversary = DOMAINS - 1, True
        self.own_heads = not shared if own_heads is None else own_heads

    @property
    def theta(self) -> dict[str, nn.Parameter]:
        return dict(self.model.encoder.named_parameters())

    @property
    def gamma(self) -> list[nn.Parameter]:
        return list(self.model.discriminator.parameters()) if self.adversary else []

    def states(self, task: int, theta: Mapping[str, Tensor] | None = None) -> Tensor:
        if theta is None:
            return self.model.encoder(self.x[task])[0]
        return functional_call(self.model.encoder, dict(theta), (self.x[task],))[0]

    def _head(self, model: Model, task: int) -> nn.Module:
        return model.heads[task % len(model.heads)]

    def tagging_loss(self, task: int, states: Tensor, model: Model | None = None) -> Tensor:
        scores = self._head(model or self.model, task)(states)
        return nn.functional.cross_entropy(scores.flatten(0, 1), self.y[task].flatten())

    def domain_loss(self, task: int, states: Tensor) -> Tensor | None:
        return self.discriminate(task, states) if self.adversary else None

    def discriminate(self, task: int, states: Tensor, model: Model | None = None) -> Tensor:
        return (model or self.model).discriminator.loss(states, self.mask, task)

    def phi(self, task: int) -> list[nn.Parameter]:
        return list(self._head(self.model, task).parameters())

    def run(self, options: MetaNEROptions, share: float = 1.0) -> dict[str, Tensor]:
        self.adversary = options.adversary
        return iteration_of(options.order)(self, options, share).run()

    def gradients(self, options: MetaNEROptions) -> dict[str, Tensor]:
        self.model.zero_grad()
        before = copy.deepcopy(self.model.state_dict())
        self.run(options)
        for name, value in self.model.state_dict().items():
            assert torch.equal(value, before[name]), f"{name} was moved"
        return {n: p.grad.clone() for n, p in self.model.named_parameters() if p.grad is not None}

    # -- the same, slowly and by the book ------------------------------------------------------------------

    def walk(self, s: MetaNEROptions, model: Model) -> tuple[Model, Model, dict[str, Tensor]]:
        """Copies of the model at θ(old) and θ(new), and Σ ∇ of the losses met on the way."""
        old = new = copy.deepcopy(model)
        sums = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
        tasks = range(self.validation)
        for step in [[i] for i in tasks] if s.inner_steps == "chained" else [list(tasks)]:
            here = copy.deepcopy(new)
            tag = sum(self.tagging_loss(i, here.encoder(self.x[i])[0], here) for i in step)
            dis = sum(self.discriminate(i, here.encoder(self.x[i])[0], here) for i in step)
            old, new = copy.deepcopy(here), copy.deepcopy(here)
            for name, p in here.named_parameters():
                g, d = (torch.autograd.grad(x, p, retain_graph=True, allow_unused=True)[0] for x in (tag, dis))
                g, d = (torch.zeros_like(p) if x is None else x for x in (g, d))
                d = -s.adversary_weight * d if s.adversary else torch.zeros_like(d)
                if name.startswith("encoder"):
                    old.get_parameter(name).data -= s.inner_lr * g  # eq. 17
                    new.get_parameter(name).data -= s.inner_lr * (g + d)  # eq. 18
                    sums[name] += g + d  # eq. 20
                elif name.startswith("discriminator"):
                    sums[name] += torch.autograd.grad(dis, p, retain_graph=True)[0]
                else:
                    sums[name] += g
        return (new if s.validation_theta == "new" else old), new, sums

    def validation_loss(self, s: MetaNEROptions, model: Model) -> Tensor:
        """Eq. 19 as a function of φ_0 and γ_0, inner loop included."""
        old, new, _ = self.walk(s, model)
        j = self.validation
        loss = self.tagging_loss(j, old.encoder(self.x[j])[0], model)
        return loss + (self.discriminate(j, new.encoder(self.x[j])[0], model) if s.adversary else 0)

    def slow_first_order(self, s: MetaNEROptions) -> dict[str, Tensor]:
        old, new, sums = self.walk(s, self.model)
        self.model.zero_grad()
        j = self.validation
        with torch.no_grad():
            at_old, at_new = old.encoder(self.x[j])[0], new.encoder(self.x[j])[0]
        self.tagging_loss(j, at_old).backward()  # eq. 21
        if s.adversary:
            self.discriminate(j, at_new).backward()  # eq. 22
        found = {n: p.grad.clone() for n, p in self.model.named_parameters() if p.grad is not None}
        for name, total in sums.items():
            if name.startswith("encoder"):
                found[name] = total
            elif name.startswith("heads") and self.own_heads:
                found[name] = found.get(name, 0) + total
            elif name.startswith("discriminator") and s.adversary and s.discriminator_domains == "all":
                found[name] = found[name] + total
        return found


VARIANTS = [
    (shared, {"inner_steps": inner, "validation_theta": validation, "adversary": adversary})
    for inner, validation, adversary, shared in itertools.product(
        ("chained", "summed"), ("both", "new"), (True, False), (True, False)
    )
    if adversary or validation == "both"
]


def make_options(**values: Any) -> MetaNEROptions:
    return MetaNEROptions(**{"inner_lr": ALPHA, "adversary_weight": LAMBDA} | values)


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], rtol: float = 1e-9) -> None:
    assert set(found) == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=rtol, atol=rtol * 1e-2, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize(("shared", "values"), VARIANTS, ids=str)
def test_first_order_equals_the_explicit_version(shared: bool, values: dict[str, Any]) -> None:
    options, data = make_options(**values), Data(shared)
    for domains in ("validation", "all"):
        options = replace(options, discriminator_domains=domains)
        assert_same(data.gradients(options), data.slow_first_order(options))


@pytest.mark.parametrize("order", ["first", "second", "second-fd"])
@pytest.mark.parametrize(("shared", "values"), VARIANTS, ids=str)
def test_a_discriminator_of_all_domains_adds_their_plain_gradients(
    shared: bool, values: dict[str, Any], order: str
) -> None:
    """Taken where the inner loop meets them; everything else learns exactly what it learned before."""
    options, data = make_options(**values, order=order), Data(shared)
    paper, found = (data.gradients(replace(options, discriminator_domains=d)) for d in ("validation", "all"))
    assert set(found) == set(paper)
    _, _, sums = data.walk(options, data.model)
    for name, value in paper.items():
        if name.startswith("discriminator"):
            assert sums[name].abs().sum() > 0
            torch.testing.assert_close(found[name], value + sums[name])
        else:
            assert torch.equal(found[name], value)


def test_a_discriminator_of_all_domains_learns_to_tell_them_apart() -> None:
    """By eq. 22 it hears of one domain per iteration, and names that one whatever it reads."""
    accuracy = {}
    for domains in ("validation", "all"):
        data, options = Data(shared=True), make_options(discriminator_domains=domains, adversary_weight=0.0)
        for i, x in enumerate(data.x):
            x[..., i] += 4.0  # domains that differ
        optimizer = torch.optim.Adam(data.model.discriminator.parameters(), lr=0.05)
        for _ in range(40):
            data.gradients(options)
            optimizer.step()
        scores = [data.model.discriminator(data.states(i), data.mask) for i in range(DOMAINS)]
        accuracy[domains] = [float((s.argmax(-1) == i).double().mean()) for i, s in enumerate(scores)]
    assert min(accuracy["all"]) > 0.9
    assert accuracy["validation"] == [0, 0, 0, 1]


@pytest.mark.parametrize(("shared", "values"), VARIANTS, ids=str)
def test_second_order_is_the_derivative_of_the_whole_map(shared: bool, values: dict[str, Any]) -> None:
    options, data = make_options(**values, order="second"), Data(shared, own_heads=False)
    found = data.gradients(options)
    for part in ("heads", "discriminator") if options.adversary else ("heads",):
        names = [n for n, _ in data.model.named_parameters() if n.startswith(part)]
        torch.manual_seed(5)
        direction = {n: torch.randn_like(data.model.get_parameter(n)) for n in names}
        ends = []
        for sign in (1, -1):
            moved = copy.deepcopy(data.model)
            for n in names:
                moved.get_parameter(n).data += sign * 1e-5 * direction[n]
            ends.append(float(data.validation_loss(options, moved).detach()))
        expected = (ends[0] - ends[1]) / 2e-5
        assert sum(float((found[n] * direction[n]).sum()) for n in names) == pytest.approx(expected, rel=1e-6)
        # and the second-order part is not a trifle that the test would not notice:
        first = data.gradients(replace(options, order="first"))
        zero = torch.zeros(())
        direct = sum(float((first.get(n, zero) * direction[n]).sum()) for n in names)
        assert abs(direct - expected) > 1e-4 * abs(expected)


@pytest.mark.parametrize("update", ["metaner", "maml"])
@pytest.mark.parametrize(("shared", "values"), VARIANTS, ids=str)
def test_differences_agree_with_double_backward(shared: bool, values: dict[str, Any], update: str) -> None:
    options = make_options(**values, update=update)
    data, single = Data(shared), Data(shared, torch.float32)
    single.model.load_state_dict(data.model.state_dict())
    single.x, single.y = [x.float() for x in data.x], data.y
    exact = {o: data.gradients(replace(options, order=o)) for o in ("first", "second")}
    fd = {o: single.gradients(replace(options, order=o)) for o in ("first", "second-fd")}
    error = scale = 0.0
    for name, value in exact["second"].items():
        part = value - exact["first"].get(name, 0)
        error += float((fd["second-fd"][name] - fd["first"].get(name, 0) - part).square().sum())
        scale += float(part.square().sum())
    assert (error / scale) ** 0.5 < 0.02


def test_maml_takes_theta_from_the_validation_loss_through_the_steps() -> None:
    """Of L_tr(θ(old)) - λ L_dis(θ(new)) as a function of θ_0."""
    options = make_options(update="maml", order="second")
    data, j = Data(shared=True), DOMAINS - 1
    found = data.gradients(options)
    torch.manual_seed(6)
    direction = {n: torch.randn_like(p) for n, p in data.model.encoder.named_parameters()}
    ends = []
    for sign in (1, -1):
        moved = copy.deepcopy(data.model)
        for n, d in direction.items():
            moved.encoder.get_parameter(n).data += sign * 1e-5 * d
        old, new, _ = data.walk(options, moved)
        loss = data.tagging_loss(j, old.encoder(data.x[j])[0], moved)
        loss = loss - LAMBDA * data.discriminate(j, new.encoder(data.x[j])[0], moved)
        ends.append(float(loss.detach()))
    expected = (ends[0] - ends[1]) / 2e-5
    assert sum(float((found[f"encoder.{n}"] * d).sum()) for n, d in direction.items()) == pytest.approx(
        expected, rel=1e-6
    )


def test_old_and_new_weights_differ_and_both_matter() -> None:
    data, options = Data(shared=True), make_options()
    old, new, _ = data.walk(options, data.model)
    assert not torch.equal(old.encoder.weight_ih_l0, new.encoder.weight_ih_l0)
    both, only_new = data.gradients(options), data.gradients(replace(options, validation_theta="new"))
    assert not torch.allclose(both["heads.0.weight"], only_new["heads.0.weight"])
    torch.testing.assert_close(both["discriminator.pool.vector"], only_new["discriminator.pool.vector"])


def test_the_adversary_reaches_theta_and_pulls_against_the_discriminator() -> None:
    data, options = Data(shared=True), make_options(inner_steps="summed")
    pull = data.gradients(options)["encoder.weight_ih_l0"]
    pull = pull - data.gradients(replace(options, adversary=False))["encoder.weight_ih_l0"]
    loss = sum(data.discriminate(i, data.states(i)) for i in range(data.validation))
    (towards,) = torch.autograd.grad(loss, data.model.encoder.weight_ih_l0)
    torch.testing.assert_close(pull, -LAMBDA * towards)


def test_without_inner_steps_head_and_discriminator_would_learn_otherwise() -> None:
    data, options = Data(shared=True), make_options()
    found, still = data.gradients(options), data.gradients(replace(options, inner_lr=0.0))
    for name in ("heads.0.weight", "discriminator.pool.vector", "discriminator.mlp.0.weight"):
        assert not torch.allclose(found[name], still[name], rtol=1e-4)


def test_share_scales_and_gradients_accumulate() -> None:
    data, options = Data(shared=False), make_options()
    whole = data.gradients(options)
    data.model.zero_grad()
    for _ in range(2):
        data.run(options, share=0.5)
    assert_same({n: p.grad for n, p in data.model.named_parameters() if p.grad is not None}, whole)


def test_logged_losses_are_those_of_the_tasks() -> None:
    data, options = Data(shared=True), make_options(inner_lr=0.0)
    logged = data.run(options)
    mean = sum(data.tagging_loss(i, data.states(i)) for i in range(data.validation)) / data.validation
    torch.testing.assert_close(logged["loss"], mean.detach())
    torch.testing.assert_close(logged["validation_loss"], data.tagging_loss(3, data.states(3)).detach())
