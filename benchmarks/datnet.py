"""What adversarial training costs DATNet, and whether its adversary acts.

The first table compares a step with adversarial training with the same step without it, optimiser and clipping
included; each has one batch of the source and one of the target. The second needs corpora: it trains with each
α for some steps and tells how well the discriminator does, how large the gradient is that it hands to the shared
LSTM's weights, and the F1 on dev.

    python benchmarks/datnet.py [--device cuda] [--json FILE]
    python benchmarks/datnet.py --source conll2003_en --target conll2002_es --alpha 0.1 0.8 --steps 300
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from common import Row, report, time_rivals
from rich.console import Console
from rich.table import Table
from steps import Steps

from nershift.config import build, merge, parse_settings
from nershift.data.builtin import builtin_corpus
from nershift.data.corpus import Corpus, subset
from nershift.data.formats import read_corpus
from nershift.methods.base import Setup
from nershift.methods.datnet.grad_loss import grad_loss
from nershift.methods.datnet.method import DATNet
from nershift.methods.datnet.options import DATNetOptions
from nershift.methods.datnet.shared_private import shared_part
from nershift.methods.datnet.stage import DATNetStage
from nershift.run import resolve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=7.0, help="time for each variant")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--source", help="a corpus: measure the adversary on real data")
    parser.add_argument("--target")
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.1, 0.8])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--shots", type=int, default=200)
    parser.add_argument("--variant", default="F")
    parser.add_argument("--set", nargs="*", default=[], help="settings, e.g. encoder.words.vectors=FILE")
    options = parser.parse_args()
    if options.source:
        measure_adversary(options)
    else:
        rows = [measure_cost(variant, options) for variant in ("F", "P", "base")]
        report("Adversarial training", rows, "without it", options.device, options.json)


def measure_cost(variant: str, options: argparse.Namespace) -> Row:
    stages = {
        name: make_stage(
            builtin_corpus("news"),
            builtin_corpus("clinic"),
            options,
            {"variant": variant, "adversarial_training": perturbed, "sampling_exponent": 0.0},
        )
        for name, perturbed in (("plain", False), ("perturbed", True))
    }
    runs = {name: Steps(stage) for name, stage in stages.items()}
    times = time_rivals({k: run.step for k, run in runs.items()}, options.device, options.seconds, warm_up=3)
    cost = {"cost": times["perturbed"] / times["plain"], "limit": 2.2}
    return Row(f"DATNet-{variant}", times["plain"], times["perturbed"], extra={**cost})


def make_stage(source: Corpus, target: Corpus, options: argparse.Namespace, settings: dict[str, Any]) -> DATNetStage:
    values = {"device": options.device, "options": settings, "train": {"batch_size": options.batch}}
    config = resolve("datnet", merge(values, parse_settings(options.set)))
    sources = () if settings["variant"] == "base" else (source,)
    method = DATNet(Setup(config, build(DATNetOptions, config.options), target, target.types, sources))
    method.check()
    stage = method.train(None)
    assert isinstance(stage, DATNetStage)
    stage.model.to(options.device).train()
    return stage


def measure_adversary(options: argparse.Namespace) -> None:
    source, target = read_corpus(options.source), read_corpus(options.target)
    target = target.with_splits(train=subset(target.train, shots=options.shots, seed=1))
    table = Table("α", "discriminator accuracy", "‖GRAD in the shared LSTM‖", "dev F1")
    for alpha in options.alpha:
        settings = {"variant": options.variant, "alpha": alpha, "sampling_exponent": 0.0}
        stage = make_stage(source, target, options, settings)
        trainer, told = Steps(stage), []
        for _ in range(options.steps):
            told.append(trainer.step()["adversary_accuracy"])
        accuracy = float(torch.stack(told[-50:]).mean())
        norm, f1 = gradient_norm(stage, options.steps), stage.validate()
        table.add_row(f"{alpha:g}", f"{accuracy:.3f}", f"{norm:.2e}", f"{100 * (f1 or 0):.2f}")
    Console().print(table)


def gradient_norm(stage: DATNetStage, step: int) -> float:
    """Of GRAD alone, with respect to the weights of the shared LSTM."""
    loss, chosen = [], stage.options
    for name, batch in stage.draw(step, 0, 1).items():
        model = stage.resource(name)
        states = shared_part(model.encoder, model.states(batch))
        logits = stage.model.discriminator(states, batch.mask)
        loss.append(grad_loss(logits, name != "target", chosen.alpha, chosen.gamma).mean())
    found = torch.autograd.grad(torch.stack(loss).sum(), list(stage.model.encoder.recurrent.parameters()))
    return float(torch.cat([g.flatten() for g in found]).norm())


if __name__ == "__main__":
    main()
