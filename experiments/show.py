"""Results beside the paper's, cell by cell: mean, deviation, interval, difference, significance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.label_efficiency import run_notes
from experiments.scores import Shown, against_best, collect, paired_p, row_means
from experiments.store import ResultStore
from experiments.table import Place, Table
from nershift.evaluation.stats import seed_difference

MEAN = "mean"
NOT_RUN = "not run"
NOT_KEPT = "not kept"


@dataclass(frozen=True)
class Line:
    """One line of a table: a row, or (``below``) what is told of the row above it."""

    name: str
    cells: tuple[str, ...]
    below: bool = False


@dataclass(frozen=True)
class View:
    """A table ready to show: its lines, and what there is to say below it."""

    table: Table
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    run_notes: tuple[str, ...]  # on the runs
    comparisons: tuple[str, ...]  # of the method with each other row
    shown: Mapping[Place, Shown]

    @property
    def done(self) -> int:
        """Number of runs."""
        return len(distinct(self.shown))


def view(table: Table, store: ResultStore, seeds: Sequence[int] | None = None) -> View:
    """Everything that is shown of a table."""
    shown = collect(table, store, seeds)
    rows, columns = table.layout()
    means = row_means(table, shown) if table.average else {}
    places = dict(shown) | {(row, MEAN): mean for row, mean in means.items()}
    head = (*columns, MEAN) if table.average else tuple(columns)
    lines = [line for row in rows for line in _lines(table, places, row, rows, head)]
    compared = tuple(_comparisons(table, shown, means, rows, columns))
    told = (*_remarks(shown), *run_notes(table, shown, store, seeds or table.seeds))
    return View(table, head, tuple(lines), told, compared, shown)


def markdown(table: Table, store: ResultStore, seeds: Sequence[int] | None = None) -> str:
    """The table as Markdown: ours as mean ± sd, below it its interval and the paper's, then what the numbers mean."""
    return as_markdown(view(table, store, seeds))


def as_markdown(made: View) -> str:
    lines = [f"## {made.table.title}", "", "| | " + " | ".join(made.columns) + " |"]
    lines.append("|---|" + "---:|" * len(made.columns))
    for line in made.lines:
        name = f"&nbsp;&nbsp;*{line.name}*" if line.below else line.name
        cells = (f"*{c}*" if line.below and c else c for c in line.cells)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", *made.run_notes]
    if made.comparisons:
        lines += ["", *(f"- {told}" for told in made.comparisons)]
    for note in made.table.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def _lines(
    table: Table, places: Mapping[Place, Shown], row: str, rows: Sequence[str], head: Sequence[str]
) -> Iterator[Line]:
    mine = [places.get((row, column)) for column in head]
    yield Line(row, tuple(_text(place) for place in mine))
    made = {
        "95% interval": [_interval(place) for place in mine],
        "paper (difference)": [_printed(table, row, c, head, p) for c, p in zip(head, mine, strict=True)],
    }
    if table.best:
        made["best seed"] = [f"{max(p.scores):.2f}" if p and p.scores else "" for p in mine]
    made["epoch chosen on test"] = [_oracle(place) for place in mine]
    if row == table.ours:
        made["minus best other"] = ["" if c == MEAN and table.average else _against(places, row, c, rows) for c in head]
    for name, cells in made.items():
        if any(cells):
            yield Line(name, tuple(cells), below=True)


def _text(place: Shown | None) -> str:
    summary = place.summary if place else None
    if summary is None:
        return NOT_KEPT if place and place.lacking else NOT_RUN
    if summary.sd is None:
        return f"{summary.mean:.2f} (1 run)"
    return f"{summary.mean:.2f} ± {summary.sd:.2f}"


def _interval(place: Shown | None) -> str:
    summary = place.summary if place else None
    if summary is None or summary.low is None or summary.high is None:
        return ""
    return f"{summary.low:.2f} to {summary.high:.2f}"


def _printed(table: Table, row: str, column: str, head: Sequence[str], place: Shown | None) -> str:
    value = published(table, row, column, head)
    if value is None:
        return ""
    summary = place.summary if place else None
    return f"{value:.2f}" if summary is None else f"{value:.2f} ({summary.mean - value:+.2f})"


def published(table: Table, row: str, column: str, head: Sequence[str]) -> float | None:
    """What the paper printed, or where it printed all columns but no mean, their mean."""
    value = table.published.get((row, column))
    if value is None and column == MEAN and table.average:
        known = [table.published[row, c] for c in head if c != MEAN and (row, c) in table.published]
        value = sum(known) / len(known) if known and len(known) == len(head) - 1 else None
    return value


def _oracle(place: Shown | None) -> str:
    if place is None or not place.oracle:
        return ""
    return f"{sum(place.oracle) / len(place.oracle):.2f}"


def _against(places: Mapping[Place, Shown], row: str, column: str, rows: Sequence[str]) -> str:
    found = against_best(places, row, column, rows)
    if found is None:
        return ""
    p = "" if found.p is None else ", p < 0.001" if found.p < 0.001 else f", p = {found.p:.3f}"
    return f"{found.difference:+.2f} ({found.row}{p})"


def _remarks(shown: Mapping[Place, Shown]) -> Iterator[str]:
    runs = {len(s.scores) for s in shown.values() if s.scores}
    if not runs:
        yield "Not kept by the runs there are." if any(p.lacking for p in shown.values()) else "Not run."
        return
    seeds = str(min(runs)) if len(runs) == 1 else f"{min(runs)}-{max(runs)}"
    rules = Counter(str(m["selection"]) for m in distinct(shown).values() if m.get("selection"))
    told = f"Mean ± standard deviation over {seeds} seeds, with the 95% interval of the mean."
    if max(runs) == 1:
        told = "One seed."
    if len(rules) == 1:
        told += f" Selection of weights: {_rule(next(iter(rules)))}."
    elif rules:
        parts = (f"{_rule(rule)} ({n} runs)" for rule, n in rules.most_common())
        told += f" Selection of weights: {', '.join(parts)}."
    yield told
    if lacking := max(place.lacking for place in shown.values()):
        yield f"Not kept: up to {lacking} runs of a cell are older than what is shown here and did not keep it."
    if any(place.oracle for place in shown.values()):
        yield "Epoch chosen on test: the best epoch by its test score, for comparison with papers that report it."


def distinct(shown: Mapping[Place, Shown]) -> dict[str, Mapping[str, Any]]:
    """The metrics of each run, which may stand in several places, by the run's key."""
    return {
        cell.key: metrics for place in shown.values() for cell, metrics in zip(place.cells, place.metrics, strict=True)
    }


def _rule(selection: str) -> str:
    return {"last": "the last epoch"}.get(selection, selection)


def _comparisons(
    table: Table,
    shown: Mapping[Place, Shown],
    means: Mapping[str, Shown],
    rows: Sequence[str],
    columns: Sequence[str],
) -> Iterator[str]:
    ours = means.get(table.ours)
    if ours is None or not ours.scores:
        return
    for row in rows:
        shared = set(ours.seeds) & set(means[row].seeds)
        if row == table.ours or not shared:
            continue
        theirs, own = (place.of_seeds(shared).scores for place in (means[row], ours))
        difference = seed_difference(theirs, own, matched=True)
        wins = []
        for column in columns:
            one, other = shown[table.ours, column], shown[row, column]
            p = paired_p(one, other)
            if p is not None and p < 0.05:
                better = sum(one.scores) * len(other.scores) > sum(other.scores) * len(one.scores)
                wins.append(f"{column} {'+' if better else '−'}")
        spread = "one seed"
        if difference.low is not None and difference.high is not None:
            spread = f"95% interval over seeds {difference.low:+.2f} to {difference.high:+.2f}"
        yield (
            f"{table.ours} − {row}: {difference.mean:+.2f} ({spread}); significant by approximate randomisation "
            f"(p < 0.05) on: {', '.join(wins) or 'none'}."
        )
