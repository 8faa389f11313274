"""Adapting to every sentence at once against the loop that copies, steps, predicts and restores.

Sentences of one length, K supports each, none shared, random weights of a BERT of the given size, the bottom quarter
of its layers and its embeddings frozen. Rows: prediction by each step rule; with ``--meta`` the gradient of a
meta-batch of 32 tasks with two inner steps each. `x plain` is the time of batched adaptation over that of plain
prediction of the same sentences in the same precision; the largest difference is that of scores (or gradients),
relative to their norm. The loop runs in float32 without TF32 and is timed on the first sentences.

    python benchmarks/adaptation.py [--meta] [--device cuda] [--base] [--json FILE] [--seconds 3]

``--base`` is a BERT-base (12 x 768, length 64, 256 sentences); without it a small one that two CPU cores can bear.
On a GPU every rule is also timed in bf16 (autocast). Nothing is downloaded.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from common import Row, report, time_rivals
from torch import Tensor, nn

from nershift.methods.metacross.batched_adaptation.layout import Layout
from nershift.methods.metacross.batched_adaptation.per_task_update import PerTaskUpdate
from nershift.methods.metacross.inner_update import StepRule, trained_parameters
from nershift.methods.metacross.token_classifier import mean_and_max

T = TypeVar("T")
K, TAGS, TASKS, STEPS = 2, 9, 32, 2
RULES = {
    "SGD": StepRule("sgd", 1e-2),
    "clipped SGD": StepRule("sgd", 1e-2, clip=1.0),
    "Adam": StepRule("adam", 1e-5),
}


@dataclass(frozen=True)
class Sizes:
    hidden: int = 256
    layers: int = 4
    length: int = 32
    sentences: int = 16
    in_loop: int = 4  # sentences, or tasks, on which the loop is timed


BASE = Sizes(hidden=768, layers=12, length=64, sentences=256, in_loop=8)


class Classifier(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=5000,
            hidden_size=sizes.hidden,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.hidden // 64,
            intermediate_size=4 * sizes.hidden,
        )
        self.bert = BertModel(config, add_pooling_layer=False)
        self.head = nn.Linear(sizes.hidden, TAGS)
        self.bert.embeddings.requires_grad_(False)
        self.bert.encoder.layer[: sizes.layers // 4].requires_grad_(False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.bert(input_ids=ids).last_hidden_state)

    def losses(self, ids: Tensor, tags: Tensor) -> Tensor:
        scores = self(ids).float()
        losses = nn.functional.cross_entropy(scores.flatten(0, 1), tags.flatten(), reduction="none")
        return mean_and_max(losses.view_as(tags), torch.ones_like(tags, dtype=torch.bool))


class Data:
    def __init__(self, model: Classifier, sizes: Sizes, device: str) -> None:
        self.model, self.sizes, self.device = model, sizes, device
        n, length = sizes.sentences, sizes.length
        self.query, self.support = (torch.randint(5000, (m, length), device=device) for m in (n, n * K))
        self.query_tags, self.tags = (torch.randint(TAGS, (m, length), device=device) for m in (n, n * K))

    def loop(self, rule: StepRule) -> Tensor:
        """Scores of the first sentences, one by one."""
        parameters, out = trained_parameters(self.model), []
        for i in range(self.sizes.in_loop):
            part = slice(i * K, (i + 1) * K)
            before = self._step(rule, parameters, part, 1)
            with torch.no_grad():
                out.append(self.model(self.query[i : i + 1]))
                torch._foreach_copy_(list[Tensor](parameters), before)
        return torch.cat(out)

    def _step(self, rule: StepRule, parameters: list[nn.Parameter], part: slice, steps: int) -> list[Tensor]:
        before = [p.detach().clone() for p in parameters]
        optimizer = rule.optimizer(parameters)
        for _ in range(steps):
            loss = self.model.losses(self.support[part], self.tags[part]).sum()
            grads = torch.autograd.grad(loss, parameters)
            rule.clip_tensors(grads)
            for p, grad in zip(parameters, grads, strict=True):
                p.grad = grad
            optimizer.step()
        return before

    def batched(self, rule: StepRule, group: int) -> Tensor:
        out = []
        for start in range(0, len(self.query), group):
            with PerTaskUpdate(self.model, rule) as update:
                query = self._steps(update, range(start, min(start + group, len(self.query))), 1)
                with torch.no_grad(), update.applied(query):
                    out.append(self.model(self.query[start : start + group]))
        return torch.cat(out)

    def _steps(self, update: PerTaskUpdate, tasks: range, steps: int) -> Layout:
        rows = slice(tasks[0] * K, (tasks[-1] + 1) * K)
        members = [range(K * t, K * t + K) for t in range(len(tasks))]
        layout = Layout([1] * (K * len(tasks)), members, self.device)
        for _ in range(steps):
            update.step(lambda: self.model.losses(self.support[rows], self.tags[rows]).sum(), layout)
        return Layout.one_each([1] * len(tasks), self.device)

    def meta_loop(self, rule: StepRule, tasks: int) -> list[Tensor]:
        parameters = trained_parameters(self.model)
        totals = [torch.zeros_like(p) for p in parameters]
        for i in range(tasks):
            before = self._step(rule, parameters, slice(i * K, (i + 1) * K), STEPS)
            loss = self.model.losses(self.query[i : i + 1], self.query_tags[i : i + 1]).sum()
            for total, grad in zip(totals, torch.autograd.grad(loss, parameters), strict=True):
                total += grad
            with torch.no_grad():
                torch._foreach_copy_(list[Tensor](parameters), before)
        return totals

    def meta_batched(self, rule: StepRule, tasks: int, group: int) -> list[Tensor]:
        self.model.zero_grad()
        for start in range(0, tasks, group):
            chosen = range(start, min(start + group, tasks))
            with PerTaskUpdate(self.model, rule) as update:
                query = self._steps(update, chosen, STEPS)
                with update.applied(query):
                    rows = slice(chosen[0], chosen[-1] + 1)
                    loss = self.model.losses(self.query[rows], self.query_tags[rows]).sum()
            loss.backward()
        return [p.grad for p in trained_parameters(self.model) if p.grad is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each rule")
    parser.add_argument("--base", action="store_true")
    parser.add_argument("--meta", action="store_true", help="gradients of a meta-batch instead of predictions")
    parser.add_argument("--adam-group", type=int, default=64, help="sentences at once for Adam")
    options = parser.parse_args()
    sizes = BASE if options.base else Sizes()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    data = Data(Classifier(sizes).to(options.device).eval(), sizes, options.device)
    rows = [row for name in RULES for row in (meta if options.meta else predict)(data, name, options)]
    what = f"Meta-gradients, {STEPS} inner steps" if options.meta else "Adaptation"
    title = f"{what}, BERT {sizes.layers} x {sizes.hidden}, length {sizes.length}, K = {K}"
    report(title, rows, "loop", options.device, options.json)


def precisions(device: str) -> dict[str, Callable[[], AbstractContextManager[Any]]]:
    found: dict[str, Callable[[], AbstractContextManager[Any]]] = {"fp32": nullcontext}
    if device.startswith("cuda"):
        found["bf16"] = lambda: torch.autocast("cuda", torch.bfloat16)
    return found


def within(context: Callable[[], AbstractContextManager[Any]], run: Callable[[], T]) -> Callable[[], T]:
    def inside() -> T:
        with context():
            return run()

    return inside


def predict(data: Data, name: str, options: argparse.Namespace) -> list[Row]:
    rule, n, device = RULES[name], data.sizes.sentences, options.device
    group = n if rule.low_rank else min(n, options.adam_group)

    def plain() -> Tensor:
        with torch.no_grad():
            return data.model(data.query)

    rivals: dict[str, Callable[[], Tensor]] = {"loop": lambda: data.loop(rule)}
    for precision, context in precisions(device).items():
        rivals[precision] = within(context, lambda: data.batched(rule, group))
        rivals[f"plain {precision}"] = within(context, plain)
    expected = rivals["loop"]()
    effect = relative(rivals["plain fp32"]()[: len(expected)], expected)
    found = {p: peak(rivals[p], device) for p in precisions(device)}
    times = time_rivals(rivals, device, options.seconds, warm_up=1)
    rows = []
    for precision, (scores, memory) in found.items():
        extra: dict[str, float | str] = {
            "x plain": times[precision] / times[f"plain {precision}"],
            "effect": effect,
            "sentences/s": 1e3 * n / times[precision],
            "peak GiB": memory,
        }
        difference = relative(scores[: len(expected)].float(), expected)
        slow = times["loop"] * n / data.sizes.in_loop
        rows.append(Row(f"predict {n}, {name}, {precision}", slow, times[precision], difference, extra))
    return rows


def meta(data: Data, name: str, options: argparse.Namespace) -> list[Row]:
    rule, device = RULES[name], options.device
    tasks = min(TASKS, data.sizes.sentences)
    group = tasks if rule.low_rank else min(tasks, options.adam_group)
    few = min(data.sizes.in_loop, tasks)
    rivals: dict[str, Callable[[], list[Tensor]]] = {"loop": lambda: data.meta_loop(rule, few)}
    for precision, context in precisions(device).items():
        rivals[precision] = within(context, lambda: data.meta_batched(rule, tasks, group))
    expected = flat(rivals["loop"]())
    rows = []
    found = {
        p: flat(within(context, lambda: data.meta_batched(rule, few, group))())
        for p, context in precisions(device).items()
    }
    memory = {p: peak(rivals[p], device)[1] for p in found}
    times = time_rivals(rivals, device, options.seconds, warm_up=1)
    for precision, gradient in found.items():
        slow = times["loop"] * tasks / few
        difference = relative(gradient, expected)
        label = f"meta-gradient of {tasks} tasks, {name}, {precision}"
        rows.append(Row(label, slow, times[precision], difference, {"peak GiB": memory[precision]}))
    return rows


def flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([t.flatten() for t in tensors])


def relative(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def peak(run: Callable[[], T], device: str) -> tuple[T, float]:
    """What it returns, and the GiB that a GPU held at most."""
    if not device.startswith("cuda"):
        return run(), 0.0
    torch.cuda.reset_peak_memory_stats()
    return run(), torch.cuda.max_memory_allocated() / 2**30


if __name__ == "__main__":
    main()
