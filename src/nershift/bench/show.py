"""Results beside the paper's, cell by cell: mean, deviation, interval, difference, significance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nershift.bench.cells import read_result
from nershift.bench.tables import Table
from nershift.eval.stats import SeedSummary, aggregate, randomisation_test, seed_difference

MEAN = "mean"


@dataclass(frozen=True)
class Shown:
    """One place of a table: the runs that were found there."""

    scores: tuple[float, ...]
    counts: tuple[np.ndarray, ...]

    @property
    def summary(self) -> SeedSummary | None:
        return aggregate(self.scores) if self.scores else None


def collect(table: Table, results: Path, seeds: Sequence[int] | None = None) -> dict[tuple[str, str], Shown]:
    """Scores on 0-100 by (row, column); a place without runs is there, empty."""
    found: dict[tuple[str, str], list[tuple[float, np.ndarray]]] = {}
    for cell in table.cells(seeds or table.seeds):
        result = read_result(results, cell)
        for place, part in zip(table.places(cell), table.parts, strict=True):
            runs = found.setdefault(place, [])
            if result is not None:
                runs.append((100 * float(table.value(result["metrics"], part)), result["counts"]))
    return {
        place: Shown(tuple(value for value, _ in runs), tuple(counts for _, counts in runs))
        for place, runs in found.items()
    }


def row_means(table: Table, shown: dict[tuple[str, str], Shown]) -> dict[str, Shown]:
    """Mean over the columns seed by seed, where a row has all its runs."""
    rows, columns = table.layout()
    out = {}
    for row in rows:
        per_column = [shown[row, column].scores for column in columns if (row, column) in shown]
        whole = per_column and len({len(s) for s in per_column}) == 1 and per_column[0]
        means = tuple(float(np.mean(s)) for s in zip(*per_column, strict=True)) if whole else ()
        out[row] = Shown(means, ())
    return out


def markdown(table: Table, results: Path, seeds: Sequence[int] | None = None) -> str:
    """The table as Markdown: ours as mean ± sd, the paper's below it, then what the numbers mean."""
    shown = collect(table, results, seeds)
    rows, columns = table.layout()
    means = row_means(table, shown) if table.average else {}
    head = [*columns, *([MEAN] if table.average else [])]
    lines = [f"## {table.title}", "", "| | " + " | ".join(head) + " |", "|---|" + "---:|" * len(head)]
    for row in rows:
        cells = [_text(shown.get((row, c))) for c in columns] + ([_text(means[row])] if table.average else [])
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
        if any((row, c) in table.published for c in head):
            printed = [_printed(table, row, c, columns) for c in head]
            lines.append(
                "| &nbsp;&nbsp;*paper* | " + " | ".join(f"*{p}*" if p else "" for p in printed) + " |"
            )
    lines += ["", *_remarks(table, shown, means, columns)]
    return "\n".join(lines) + "\n"


def _text(place: Shown | None) -> str:
    summary = place.summary if place else None
    if summary is None:
        return "not run"
    if summary.sd is None:
        return f"{summary.mean:.2f} (1 run)"
    return f"{summary.mean:.2f} ± {summary.sd:.2f}"


def _printed(table: Table, row: str, column: str, columns: Sequence[str]) -> str:
    value = table.published.get((row, column))
    if value is None and column == MEAN:
        known = [table.published[row, c] for c in columns if (row, c) in table.published]
        value = sum(known) / len(known) if len(known) == len(columns) else None
    return f"{value:.2f}" if value is not None else ""


def _remarks(
    table: Table, shown: dict[tuple[str, str], Shown], means: dict[str, Shown], columns: Sequence[str]
) -> Iterable[str]:
    runs = {len(s.scores) for s in shown.values() if s.scores}
    yield (
        f"Mean ± standard deviation over {_range(runs)} seeds; weights selected on dev."
        if runs
        else "Not run."
    )
    ours = means.get(table.ours)
    if ours is not None and ours.summary is not None:
        if ours.summary.low is not None:
            yield f"95% interval of {table.ours}'s mean over seeds: {ours.summary.low:.2f} to {ours.summary.high:.2f}."
        yield ""
        for row, place in means.items():
            if row != table.ours and place.scores and len(place.scores) == len(ours.scores):
                yield _against(table.ours, row, ours, place, shown, columns)
    for note in table.notes:
        yield ""
        yield note


def _range(numbers: set[int]) -> str:
    return str(min(numbers)) if len(numbers) == 1 else f"{min(numbers)}-{max(numbers)}"


def _against(
    ours: str, row: str, a: Shown, b: Shown, shown: dict[tuple[str, str], Shown], columns: Sequence[str]
) -> str:
    difference = seed_difference(b.scores, a.scores, matched=True)
    wins = []
    for column in columns:
        one, other = shown[ours, column], shown[row, column]
        # All seeds of one target are tested together: sentence by sentence, seed by seed.
        p = randomisation_test(np.concatenate(other.counts), np.concatenate(one.counts), permutations=2000)
        if p < 0.05:
            wins.append(f"{column} {'+' if np.mean(one.scores) > np.mean(other.scores) else '−'}")
    told = ", ".join(wins) or "none"
    spread = "one seed"
    if difference.low is not None and difference.high is not None:
        spread = f"95% interval over seeds {difference.low:+.2f} to {difference.high:+.2f}"
    return (
        f"- {ours} − {row}: {difference.mean:+.2f} ({spread}); significant by approximate randomisation "
        f"(p < 0.05) on: {told}."
    )
