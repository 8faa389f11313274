"""The main job in a minute and a half: a tagger for clinic notes from 40 labelled ones and seven other domains.

Run it with ``python -m nershift.demo [OUT] [MINUTES]``; everything it needs is built in.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nershift.auto.fit import fit
from nershift.comparison import compare
from nershift.console import make_console
from nershift.data.builtin import BUILTIN_DOMAINS, builtin_corpus
from nershift.reports.text import coloured
from nershift.run import transfer
from nershift.run_folder import Run

TARGET, SHOTS, SEED = "clinic", 40, 1
MINUTES = 2.5  # it takes about half; a machine that is a third slower still tries the sources


def main(out: Path, minutes: float = MINUTES) -> None:
    console = make_console()
    torch.set_num_threads(1)  # a model this small gains nothing from more, and numbers are the same everywhere
    target = builtin_corpus(TARGET)
    sources = [builtin_corpus(domain) for domain in BUILTIN_DOMAINS if domain != TARGET]
    console.print(
        f"[bold]nershift demo[/]: a tagger for '{TARGET}' ({', '.join(target.types)}) from {SHOTS} labelled "
        f"sentences; {len(sources)} other domains with 1,000 sentences each can help.\n"
    )
    began = time.monotonic()
    done = fit(
        target,
        sources,
        out=out / "fit",
        shots=SHOTS,
        seed=SEED,
        minutes=minutes,
        encoder="none",
        one_model=True,  # a vote of three gains a point here and takes a minute more
        overwrite=True,
        tell=lambda line: console.print(line, style="dim", markup=False, highlight=False),
    )
    alone = transfer(
        "target_only", target, out=out / "target-only", shots=SHOTS, seed=SEED, overwrite=True, quiet=True, report=False
    )
    seconds = time.monotonic() - began
    runs = {"target only": alone, "fit": done.run}
    console.print()
    _show_sample(console, runs)
    _show_table(console, runs)
    for line in done.facts["reasons"]:
        console.print(line, markup=False, highlight=False)
    console.print(f"\n{seconds:.0f} s. Report: [bold]{out / 'fit' / 'report.html'}[/]")
    command = os.path.relpath(Path(sys.executable).with_name("nershift"))
    text = "Dr. Osei gave her 20 mg of Velmorin."
    console.print(f"Use the tagger: echo '{text}' | {command} predict --model {out / 'fit'} -", soft_wrap=True)


def _show_sample(console: Console, runs: Mapping[str, Run]) -> None:
    """A test sentence that the chosen tagger gets right and the target alone does not."""
    gold, alone = runs["target only"].predictions()
    _, moved = runs["fit"].predictions()
    better = [i for i, s in enumerate(gold) if moved[i].spans == s.spans != alone[i].spans and len(s.spans) > 1]
    for i in better[:2]:
        for name, sentence in (("target only", alone[i]), ("fit", moved[i]), ("right", gold[i])):
            console.print(Text(f"{name:>12}  ", "dim"), coloured(sentence), sep="")
        console.print()


def _show_table(console: Console, runs: Mapping[str, Run]) -> None:
    table = Table("", "precision", "recall", "F1", "95% interval", title="clinic, test split")
    for name, run in runs.items():
        test = run.metrics["test"]
        low, high = test["interval"]
        numbers = [f"{100 * test[k]:.1f}" for k in ("precision", "recall", "f1")]
        table.add_row(name, *numbers, f"{100 * low:.1f} to {100 * high:.1f}")
    console.print(table)
    console.print(compare(*runs.values()).verdict(*runs))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"), float(sys.argv[2]) if len(sys.argv) > 2 else MINUTES)
