"""The table of docs/which.md, made from the results: ``python -m website.which`` writes it into the page."""

from __future__ import annotations

import re
import sys
from statistics import mean

from experiments.papers import get_table
from experiments.scores import Runs, collect
from experiments.store import ResultStore
from nershift.storage import write_text
from website.contents import ROOT

PAGE = ROOT / "docs" / "which.md"
ROWS = ("target_only", "finetune", "target_only, MiniLM")
AMOUNTS = (10, 50, 200, 1000)
_BLOCK = re.compile(r"(?<=<!-- which: begin -->\n).*?(?=<!-- which: end -->)", re.DOTALL)


def scores(store: ResultStore) -> dict[int, dict[str, list[float | None]]]:
    """F1 in percent: amount → target → one value for each of ROWS, None where it was not run."""
    found: dict[int, dict[str, list[float | None]]] = {}
    for amount in AMOUNTS:
        table = get_table(f"few-which-{amount}")
        shown = collect(table, store)
        _, targets = table.layout()
        rows = {t: [_mean(shown[row, t]) if (row, t) in shown else None for row in ROWS] for t in targets}
        found[amount] = {t: row for t, row in rows.items() if any(value is not None for value in row)}
    return found


def _mean(runs: Runs) -> float | None:
    return runs.summary.mean if runs.summary else None


def table(store: ResultStore) -> str:
    """The table as Markdown, with a line of means over the targets that have all rows."""
    found = scores(store)
    targets = list(dict.fromkeys(target for row in found.values() for target in row))
    lines = [f"| target | {' | '.join(f'{amount:,}' for amount in AMOUNTS)} |", "|---|" + "---|" * len(AMOUNTS)]
    lines += [f"| {t} | {' | '.join(_cell(found[amount].get(t, [])) for amount in AMOUNTS)} |" for t in targets]
    means = [_cell(_means(list(found[amount].values()))) for amount in AMOUNTS]
    lines.append(f"| **mean** | {' | '.join(means)} |")
    return "\n".join(lines) + "\n"


def _means(rows: list[list[float | None]]) -> list[float | None]:
    columns = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    return [mean(column) if len(column) == len(rows) else None for column in columns]


def _cell(values: list[float | None]) -> str:
    return " / ".join("–" if value is None else f"{value:.0f}" for value in values)


def filled(text: str, store: ResultStore) -> str:
    """The page with the table of today."""
    return _BLOCK.sub(lambda _: table(store), text)


if __name__ == "__main__":
    write_text(PAGE, filled(PAGE.read_text(encoding="utf-8"), ResultStore()))
    sys.stdout.write(f"{PAGE}\n")
