"""The main job in two minutes: 40 labelled clinic notes alone, and the same 40 after seven other domains.

Run it with ``python -m nershift.demo [OUT] [SETTING=VALUE …]``; everything it needs is built in.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nershift.comparison import compare
from nershift.config import parse_settings
from nershift.console import make_console
from nershift.data.builtin import BUILTIN_DOMAINS, builtin_corpus
from nershift.reports import html
from nershift.reports.model import ComparisonRow, RunReport
from nershift.reports.text import coloured
from nershift.run import transfer
from nershift.run_folder import Run

TARGET, SHOTS, SEED = "clinic", 40, 1


def main(out: Path, settings: Mapping[str, Any]) -> None:
    console = make_console()
    torch.set_num_threads(1)  # a model this small gains nothing from more, and numbers are the same everywhere
    target = builtin_corpus(TARGET)
    sources = [builtin_corpus(domain) for domain in BUILTIN_DOMAINS if domain != TARGET]
    console.print(
        f"[bold]nershift demo[/]: a tagger for '{TARGET}' ({', '.join(target.types)}) from {SHOTS} labelled "
        f"sentences; {len(sources)} other domains with 1,000 sentences each can help.\n"
    )
    common: dict[str, Any] = {"shots": SHOTS, "seed": SEED, "config": settings, "overwrite": True}
    began = time.monotonic()
    runs = {
        "target only": transfer("target_only", target, out=out / "target-only", **common),
        "transfer": transfer("finetune", target, sources, out=out / "transfer", **common),
    }
    seconds = time.monotonic() - began
    _show_sample(console, runs)
    _show_table(console, runs)
    page = _write_page(out, runs)
    console.print(f"\n{seconds:.0f} s of training. Report with a plot: [bold]{page}[/]")
    command = os.path.relpath(Path(sys.executable).with_name("nershift"))
    text = "Dr. Osei gave her 20 mg of Velmorin."
    console.print(f"Use the tagger: echo '{text}' | {command} predict --model {out / 'transfer'} -", soft_wrap=True)


def _show_sample(console: Console, runs: dict[str, Run]) -> None:
    """A test sentence that transfer gets right and the target alone does not."""
    gold, alone = runs["target only"].predictions()
    _, moved = runs["transfer"].predictions()
    better = [i for i, s in enumerate(gold) if moved[i].spans == s.spans != alone[i].spans and len(s.spans) > 1]
    for i in better[:2]:
        for name, sentence in (("target only", alone[i]), ("transfer", moved[i]), ("right", gold[i])):
            console.print(Text(f"{name:>12}  ", "dim"), coloured(sentence), sep="")
        console.print()


def _show_table(console: Console, runs: dict[str, Run]) -> None:
    table = Table("", "precision", "recall", "F1", "95% interval", title="clinic, test split")
    for name, run in runs.items():
        test = run.metrics["test"]
        low, high = test["interval"]
        numbers = [f"{100 * test[k]:.1f}" for k in ("precision", "recall", "f1")]
        table.add_row(name, *numbers, f"{100 * low:.1f} to {100 * high:.1f}")
    console.print(table)
    console.print(compare(*runs.values()).verdict(*runs))


def _write_page(out: Path, runs: dict[str, Run]) -> Path:
    gold, pred = runs["transfer"].predictions()
    report = RunReport.of(
        "nershift demo: clinic from 40 sentences",
        gold,
        pred,
        method="finetune",
        comparisons=tuple(ComparisonRow(name, run.f1, *run.metrics["test"]["interval"]) for name, run in runs.items()),
    )
    page = out / "report.html"
    html.save(report, page)
    return page


if __name__ == "__main__":
    folders = [Path(word) for word in sys.argv[1:] if "=" not in word]
    main(folders[0] if folders else Path("demo"), parse_settings(word for word in sys.argv[1:] if "=" in word))
