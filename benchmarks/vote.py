"""Votes of the runs of `laner-steps` on CrossNER, from the spans that their results keep; nothing is trained.

    python -m experiments run laner-steps && python benchmarks/vote.py [--results FOLDER] [--json FILE]

Dev scores say which vote to take; test scores stand beside them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import common  # noqa: F401 - finds `experiments`
from rich.console import Console
from rich.table import Table

from experiments.cells import Cell
from experiments.error_analysis import unpack_spans
from experiments.jobs import corpus
from experiments.laner.recipe import column
from experiments.papers import get_table
from experiments.store import ROOT, ResultStore
from nershift.data.spans import Sentence
from nershift.evaluation.metrics import score, sentence_counts
from nershift.evaluation.stats import Estimate, bootstrap_f1, bootstrap_mean_f1
from nershift.tagger.ensemble import vote

SEEDS = (1, 2, 3)
ALL = ("tagger, all domains", "LANER, all domains")
BOTH = tuple(f"{row}, both encoders" for row in ALL)
LONGER = ("tagger, carried, 50 epochs", "LANER, 50 epochs")
BEST = ("LANER, best recipe", "LANER, best recipe, averaged")
# Rows of laner-steps whose runs with all seeds vote together.
VOTES: dict[str, Sequence[str]] = {
    **{
        row: (row,)
        for row in (
            "tagger",
            "tagger, carried",
            "LANER",
            *LONGER,
            "LANER, Wikipedia",
            *ALL,
            *BOTH,
            "LANER, all domains, 50 epochs",
            *BEST,
        )
    },
    "LANER, all domains, one and both encoders": (ALL[1], BOTH[1]),
    "all four rows with all domains": (*ALL, *BOTH),
    "these four and the best recipe, averaged": (*ALL, *BOTH, BEST[1]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cells, store = get_table("laner-steps").cells(SEEDS), ResultStore(options.results)
    found = [row for name, rows in VOTES.items() for row in votes(name, rows, cells, store)]
    shown = Table("vote", "runs", "target", "dev", "test", "95% over sentences", box=None)
    for row in found:
        low, high = row["interval"]
        shown.add_row(
            row["vote"], str(row["runs"]), row["target"], f"{100 * row['dev']:.2f}", f"{100 * row['test']:.2f}",
            f"{100 * low:.2f} to {100 * high:.2f}",
        )  # fmt: skip
    Console().print(shown)
    if options.json:
        options.json.write_text(json.dumps({"seeds": SEEDS, "rows": found}, indent=1) + "\n")


def votes(name: str, rows: Sequence[str], cells: Sequence[Cell], store: ResultStore) -> list[dict[str, Any]]:
    """Scores of the vote on each target for which any of its runs kept its spans, and their mean."""
    made, test_rows = [], []
    for target in dict.fromkeys(c.target for c in cells):
        members = [r for c in cells if c.name in rows and c.target == target and (r := store.analysis(c).get("spans"))]
        if len(members) < len(rows) * len(SEEDS):
            continue
        dev, test = (_voted(members, target, split) for split in ("dev", "test"))
        test_rows.append(sentence_counts(*test))
        made.append(_row(name, len(members), column(target), score(*dev).f1, bootstrap_f1(test_rows[-1])))
    if len(made) < len({c.target for c in cells}):
        return made
    dev_mean = sum(row["dev"] for row in made) / len(made)
    return [*made, _row(name, made[0]["runs"], "mean", dev_mean, bootstrap_mean_f1(test_rows))]


def _row(name: str, runs: int, target: str, dev: float, test: Estimate) -> dict[str, Any]:
    interval = [test.low, test.high]
    return {
        "vote": name,
        "runs": runs,
        "target": target,
        "dev": dev,
        "test": test.value,
        "interval": interval,
    }


def _voted(members: Sequence[dict[str, str]], target: str, split: str) -> tuple[Sequence[Sentence], list[Sentence]]:
    gold = corpus(target, "own").split(split)
    return gold, vote([unpack_spans(member[split], gold) for member in members])


if __name__ == "__main__":
    main()
