"""What a table's method gets wrong where: by type, confusions, seen and unseen mentions, examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import charts as more_charts
from experiments.cells import Cell
from experiments.error_analysis import analysis
from experiments.figures import Chart
from experiments.scores import Runs, against_best
from experiments.show import MEAN, View
from experiments.store import ResultStore
from nershift.data.spans import Sentence
from nershift.errors import NershiftError
from nershift.evaluation.error_analysis import Example
from nershift.evaluation.metrics import Counts
from nershift.reports.content import ReportTable, percent

TYPES = 12
CONFUSIONS = 8
EXAMPLES = 4


@dataclass(frozen=True)
class ColumnErrors:
    """One column of a table, looked at closely."""

    title: str
    charts: tuple[Chart, ...]
    tables: tuple[ReportTable, ...]
    examples: tuple[Example, ...] = ()
    notes: tuple[str, ...] = ()


def errors_of(view: View, store: ResultStore) -> Iterator[ColumnErrors]:
    """For each column in which the table's own method was run."""
    ours = view.table.ours
    rows = list(dict.fromkeys(row for row, _ in view.shown))
    for column in view.columns:
        mine = view.shown.get((ours, column))
        if column == MEAN or mine is None or not mine.testable:
            continue
        best = against_best(view.shown, ours, column, rows)
        systems = {ours: mine} | ({best.row: view.shown[best.row, column]} if best else {})
        yield _column(column, ours, systems, store)


def _column(column: str, ours: str, systems: Mapping[str, Runs], store: ResultStore) -> ColumnErrors:
    kept: dict[str, list[Mapping[str, Any]]] = {}
    for name, place in systems.items():
        kept[name] = [errors for cell in place.cells if (errors := store.analysis(cell).get("errors"))]
    tables = [_confusions(ours, kept[ours]), _familiarity(kept)]
    notes, examples = [], tuple[Example, ...]()
    if not kept[ours]:
        notes.append("These runs kept no confusions, seen and unseen mentions or examples.")
    else:
        cell = next(cell for cell in systems[ours].cells if store.analysis(cell).get("errors"))
        test = _test(cell)
        examples = analysis(kept[ours][0], test).examples[:EXAMPLES]
        if test is None:
            notes.append("Examples are shown where the corpus is at hand (NERSHIFT_DATA).")
    return ColumnErrors(
        f"{column}: by type, and what is mistaken",
        _by_type(systems),
        tuple(t for t in tables if t is not None and t.rows),
        examples,
        tuple(notes),
    )


def _by_type(systems: Mapping[str, Runs]) -> tuple[Chart, ...]:
    """Bars for the most frequent types."""
    support: Counter[str] = Counter()
    values: dict[str, dict[str, list[float]]] = {}
    for name, place in systems.items():
        for metrics in place.metrics:
            for label, counts in metrics["test"].get("by_type", {}).items():
                support[label] = max(support[label], counts["support"])
                values.setdefault(name, {}).setdefault(label, []).append(counts["f1"])
    labels = [label for label, n in support.most_common(TYPES) if n]
    if not labels:
        return ()
    series = {
        name: [float(np.mean(mine[label])) if label in mine else None for label in labels]
        for name, mine in values.items()
    }
    what = f"F1 by type, mean over seeds; {'the most frequent types' if len(support) > TYPES else 'all types'}."
    return (Chart(what, lambda: more_charts.bars(labels, series)),)


def _confusions(ours: str, kept: Sequence[Mapping[str, Any]]) -> ReportTable | None:
    if not kept:
        return None
    total: Counter[tuple[str, str]] = Counter()
    for row in kept:
        for gold, pred, n in row["confusions"]:
            total[gold, pred] += n
    rows = tuple((g, p, f"{n / len(kept):.1f}") for (g, p), n in total.most_common(CONFUSIONS))
    headers = ("gold", "predicted", "count a run")
    return ReportTable("confusions", f"Worst confusions of {ours}", headers, rows, words=2)


def _familiarity(kept: Mapping[str, Sequence[Mapping[str, Any]]]) -> ReportTable | None:
    rows = []
    for name, results in kept.items():
        for which in ("seen", "unseen"):
            counts = [Counts.from_dict(r[which]) for r in results if r.get(which)]
            if counts:
                scores = [float(np.mean([getattr(c, k) for c in counts])) for k in ("f1", "precision", "recall")]
                rows.append((f"{name}, {which}", *map(percent, scores), f"{np.mean([c.support for c in counts]):.0f}"))
    note = "Seen: the same words are an entity in the labelled sentences the run learned from."
    headers = ("mentions", "F1", "precision", "recall", "gold")
    return ReportTable("familiarity", "Mentions seen and unseen in training", headers, tuple(rows), note=note)


def _test(cell: Cell) -> Sequence[Sentence] | None:
    """The test split that a run was scored on, where the corpus is at hand."""
    from experiments.jobs import corpus

    try:
        return corpus(cell.target, cell.labels).test
    except NershiftError:
        return None
