"""Results beside the paper's, cell by cell: mean, deviation, interval, difference, significance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.label_efficiency import share_notes
from experiments.scores import Runs, against_best, collect, paired_p, row_means, verdict
from experiments.store import ResultStore
from experiments.table import Place, Table
from experiments.updates import HEADERS, unequal_note, update_rows
from nershift.evaluation.stats import SeedSummary, aggregate, seed_difference

MEAN = "mean"
NOT_RUN = "not run"
NOT_KEPT = "not kept"
_FEWEST_COLUMNS = 5  # that an interval over columns is made of


@dataclass(frozen=True)
class Line:
    """One line of a table: a row, or a detail of the row above it (``below``)."""

    name: str
    cells: tuple[str, ...]
    below: bool = False


@dataclass(frozen=True)
class View:
    """A table ready to be rendered: its lines and the notes below it."""

    table: Table
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    run_notes: tuple[str, ...]  # on the runs
    comparisons: tuple[str, ...]  # of the method with each other row
    shown: Mapping[Place, Runs]
    updates: tuple[tuple[str, ...], ...] = ()  # row, then as in `updates.HEADERS`

    @property
    def done(self) -> int:
        """Number of runs."""
        return len(distinct(self.shown))


def view(table: Table, store: ResultStore, seeds: Sequence[int] | None = None) -> View:
    """All of a table, ready to be rendered."""
    shown = collect(table, store, seeds)
    rows, columns = table.layout()
    means = row_means(table, shown) if table.average else {}
    places = dict(shown) | {(row, MEAN): mean for row, mean in means.items()}
    head = (*columns, MEAN) if table.average else tuple(columns)
    lines = [line for row in rows for line in _lines(table, places, row, rows, head)]
    compared = tuple(_comparisons(table, shown, means, rows, columns))
    notes = [*_run_notes(shown), *share_notes(table, shown, store, seeds or table.seeds), unequal_note(table, shown)]
    trained = tuple(update_rows(table, shown))
    return View(table, head, tuple(lines), tuple(filter(None, notes)), compared, shown, trained)


def markdown(table: Table, store: ResultStore, seeds: Sequence[int] | None = None) -> str:
    """The table as Markdown: ours as mean ± sd, below it its interval and the paper's, then what the numbers mean."""
    return as_markdown(view(table, store, seeds))


def as_markdown(shown: View) -> str:
    lines = [f"## {shown.table.title}", "", "| | " + " | ".join(shown.columns) + " |"]
    lines.append("|---|" + "---:|" * len(shown.columns))
    for line in shown.lines:
        name = f"&nbsp;&nbsp;*{line.name}*" if line.below else line.name
        cells = (f"*{c}*" if line.below and c else c for c in line.cells)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", *shown.run_notes]
    if shown.comparisons:
        lines += ["", *(f"- {comparison}" for comparison in shown.comparisons)]
    for note in shown.table.notes:
        lines += ["", note]
    if shown.updates:
        lines += ["", *_updates_markdown(shown)]
    return "\n".join(lines) + "\n"


def updates_table(shown: View) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """How long each row trained: headers and lines, without columns in which nothing stands."""
    whole = [("trained for", *HEADERS), *shown.updates]
    filled = [column for column in zip(*whole, strict=True) if any(column[1:])]
    head, *lines = zip(*filled, strict=True)
    return head, lines


def _updates_markdown(shown: View) -> Iterator[str]:
    head, lines = updates_table(shown)
    yield "| " + " | ".join(head) + " |"
    yield "|---|" + "---:|" * (len(head) - 1)
    yield from ("| " + " | ".join(line) + " |" for line in lines)


def _lines(
    table: Table, places: Mapping[Place, Runs], row: str, rows: Sequence[str], head: Sequence[str]
) -> Iterator[Line]:
    mine = [places.get((row, column)) for column in head]
    yield Line(row, tuple(_text(place) for place in mine))
    below = {
        "95% interval": [_interval(place) for place in mine],
        "paper (difference)": [_printed(table, row, c, head, p) for c, p in zip(head, mine, strict=True)],
    }
    if table.best:
        below["best seed"] = [f"{max(p.scores):.2f}" if p and p.scores else "" for p in mine]
    below["epoch chosen on test"] = [_oracle(place) for place in mine]
    if row == table.ours:
        below["minus best other"] = [
            "" if c == MEAN and table.average else _against(places, row, c, rows) for c in head
        ]
    for name, cells in below.items():
        if any(cells):
            yield Line(name, tuple(cells), below=True)


def _text(place: Runs | None) -> str:
    summary = place.summary if place else None
    if summary is None:
        return NOT_KEPT if place and place.lacking else NOT_RUN
    if summary.sd is None:
        return f"{summary.mean:.2f} (1 run)"
    return f"{summary.mean:.2f} ± {summary.sd:.2f}"


def _interval(place: Runs | None) -> str:
    summary = place.summary if place else None
    if summary is None or summary.low is None or summary.high is None:
        return ""
    return f"{summary.low:.2f} to {summary.high:.2f}"


def _printed(table: Table, row: str, column: str, head: Sequence[str], place: Runs | None) -> str:
    value = published(table, row, column, head)
    if value is None:
        return ""
    summary = place.summary if place else None
    return f"{value:.2f}" if summary is None else f"{value:.2f} ({summary.mean - value:+.2f})"


def published(table: Table, row: str, column: str, head: Sequence[str]) -> float | None:
    """What the paper printed; if it printed all columns but no mean, their mean."""
    value = table.published.get((row, column))
    if value is None and column == MEAN and table.average:
        known = [table.published[row, c] for c in head if c != MEAN and (row, c) in table.published]
        value = sum(known) / len(known) if known and len(known) == len(head) - 1 else None
    return value


def _oracle(place: Runs | None) -> str:
    if place is None or not place.oracle:
        return ""
    return f"{sum(place.oracle) / len(place.oracle):.2f}"


def _against(places: Mapping[Place, Runs], row: str, column: str, rows: Sequence[str]) -> str:
    best = against_best(places, row, column, rows)
    if best is None:
        return ""
    p = "" if best.p is None else ", p < 0.001" if best.p < 0.001 else f", p = {best.p:.3f}"
    return f"{best.difference:+.2f} ({best.row}{p})"


def _run_notes(shown: Mapping[Place, Runs]) -> Iterator[str]:
    runs = {len(s.scores) for s in shown.values() if s.scores}
    if not runs:
        yield "Not kept by the runs there are." if any(p.lacking for p in shown.values()) else "Not run."
        return
    seeds = str(min(runs)) if len(runs) == 1 else f"{min(runs)}-{max(runs)}"
    rules = Counter(str(m["selection"]) for m in distinct(shown).values() if m.get("selection"))
    note = f"Mean ± standard deviation over {seeds} seeds, with the 95% interval of the mean."
    if max(runs) == 1:
        note = "One seed."
    if len(rules) == 1:
        note += f" Selection of weights: {_rule(next(iter(rules)))}."
    elif rules:
        parts = (f"{_rule(rule)} ({n} runs)" for rule, n in rules.most_common())
        note += f" Selection of weights: {', '.join(parts)}."
    yield note
    if lacking := max(place.lacking for place in shown.values()):
        yield f"Not kept: up to {lacking} runs of a cell are older than what is shown here and did not keep it."
    if any(place.oracle for place in shown.values()):
        yield "Epoch chosen on test: the best epoch by its test score, for comparison with papers that report it."


def distinct(shown: Mapping[Place, Runs]) -> dict[str, Mapping[str, Any]]:
    """The metrics of each run by its key; a run may stand in several places."""
    return {
        cell.key: metrics for place in shown.values() for cell, metrics in zip(place.cells, place.metrics, strict=True)
    }


def _rule(selection: str) -> str:
    return {"last": "the last epoch"}.get(selection, selection)


def _comparisons(
    table: Table,
    shown: Mapping[Place, Runs],
    means: Mapping[str, Runs],
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
        spread = "one seed" + _over_columns([(shown[table.ours, c], shown[row, c]) for c in columns])
        if difference.low is not None and difference.high is not None:
            spread = f"95% interval over seeds {difference.low:+.2f} to {difference.high:+.2f}"
        yield (
            f"{table.ours} − {row}: {difference.mean:+.2f} ({spread}); significant by approximate randomisation "
            f"(p < 0.05) on: {', '.join(wins) or 'none'}.{_claim(table, row, columns, difference)}"
        )


def _over_columns(pairs: Sequence[tuple[Runs, Runs]]) -> str:
    """The interval of the mean difference where corpora, not seeds, are what varies."""
    if len(pairs) < _FEWEST_COLUMNS:
        return ""
    found = aggregate([sum(a.scores) / len(a.scores) - sum(b.scores) / len(b.scores) for a, b in pairs])
    return f"; 95% interval over columns {found.low:+.2f} to {found.high:+.2f}"


def _claim(table: Table, row: str, columns: Sequence[str], difference: SeedSummary) -> str:
    """What our interval makes of the gain that the paper printed, if it printed both rows."""
    ours, theirs = (published(table, r, MEAN, [*columns, MEAN]) for r in (table.ours, row))
    if ours is None or theirs is None or ours <= theirs:
        return ""
    found = verdict((difference.low, difference.high), ours - theirs)
    return f" The paper's gain of {ours - theirs:+.2f}: {found}."
