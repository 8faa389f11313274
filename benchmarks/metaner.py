"""What an iteration of MetaNER costs, and how well differences of gradients stand in for second derivatives.

An iteration has four meta-training batches and one validation batch of 32 sentences. It is compared with five
plain training steps of the same model on the same batches, optimiser and clipping included.
The largest difference is that between the second-order parts of the decoders' and the discriminator's
gradients, second-fd in single precision against double backward in double precision, relative to the latter.

    python benchmarks/metaner.py [--device cuda] [--json FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from common import Row, report, time_rivals
from steps import Steps
from torch import Tensor, nn

from nershift.config import build
from nershift.data.builtin import builtin_corpus
from nershift.data.corpus import Corpus
from nershift.methods.base import Setup
from nershift.methods.metaner.method import MetaNER
from nershift.model import TaggingModel
from nershift.run import resolve
from nershift.training.stage import TrainingStage

DOMAINS = ("news", "court", "sports", "travel", "market")
SHARED = ("person", "place")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0, help="time for each setting")
    parser.add_argument("--words", type=int, default=20_000, help="further rows of the word table")
    options = parser.parse_args()
    rows = [row for same in (True, False) for row in measure(same, options)]
    report("MetaNER iterations", rows, "compared with", options.device, options.json)


def measure(homogeneous: bool, options: argparse.Namespace) -> list[Row]:
    sources = [builtin_corpus(domain) for domain in DOMAINS]
    if homogeneous:
        sources = [c.mapped({t: "O" for t in c.types if t not in SHARED}) for c in sources]
    first, fd = (make_stage(sources, options, order=order) for order in ("first", "second-fd"))
    plain = Steps(first, lambda batches: (first.model(b) for b in batches.values()), cycle=20)
    runs = {"plain": plain, "first": Steps(first, cycle=20), "second-fd": Steps(fd, cycle=20)}
    # Warm: each of the twenty batches once, since a kernel is compiled for every new kind of shape.
    times = time_rivals({k: run.step for k, run in runs.items()}, options.device, options.seconds, warm_up=20)
    name = "one label space" if homogeneous else "a label space each"
    cost = {"cost": times["first"] / times["plain"], "limit": 2.5}
    cost_fd = {"cost": times["second-fd"] / times["first"], "limit": 3.5}
    return [
        Row(f"{name}: first order / five plain steps", times["plain"], times["first"], extra={**cost}),
        Row(
            f"{name}: second-fd / first order",
            times["first"],
            times["second-fd"],
            disagreement(sources, options),
            {**cost_fd},
        ),
    ]


class WideMetaNER(MetaNER):
    """MetaNER with a word table of the size that real corpora have."""

    words = 0

    def source_model(self) -> TaggingModel:
        model = super().source_model()
        model.encoder.learn_words(f"further{i}" for i in range(self.words))
        return model


def make_stage(sources: list[Corpus], options: argparse.Namespace, **settings: Any) -> TrainingStage:
    config = resolve("metaner", {"device": options.device, "options": settings})
    method = WideMetaNER(Setup(config, build(MetaNER.Options, config.options), sources=tuple(sources)))
    method.words = options.words
    stage = method.pretrain()
    stage.model.to(options.device).train()
    return stage


def disagreement(sources: list[Corpus], options: argparse.Namespace) -> float:
    """Without dropout, whose masks depend on the precision, and TF32, which would drown the rest."""
    torch.backends.cudnn.allow_tf32 = False
    single = {order: second_order(sources, options, order, torch.float32) for order in ("first", "second-fd")}
    double = {order: second_order(sources, options, order, torch.float64) for order in ("first", "second")}
    exact = double["second"] - double["first"]
    return float((single["second-fd"] - single["first"] - exact).norm() / exact.norm())


def second_order(sources: list[Corpus], options: argparse.Namespace, order: str, dtype: torch.dtype) -> Tensor:
    stage = make_stage(sources, options, order=order)
    stage.model.to(dtype)
    for module in stage.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    stage.gradients(stage.draw(0, 0, 1), Tensor.backward)
    heads = [*stage.model.heads.parameters(), *stage.model.extras.parameters()]
    return torch.cat([p.grad.flatten() for p in heads if p.grad is not None]).double()


if __name__ == "__main__":
    main()
