"""The charts that fit a table, from the shape of its rows and columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments import charts as more_charts
from experiments.ranks import Ranking, rank_systems
from experiments.scores import Runs, row_means
from experiments.show import MEAN, View, published
from nershift.reports import charts
from nershift.reports.model import ComparisonRow, Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FEWEST = 3  # points of a line, systems and data sets of a ranking
_AMOUNT = re.compile(r"(?:(.*?)[\s=@]+)?(\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Chart:
    """A chart and its caption."""

    what: str
    draw: Callable[[], Figure]


def charts_of(view: View) -> Iterator[Chart]:
    """Sweeps, learning curves, bars by type, dots of systems: whatever fits the table."""
    columns = [c for c in view.columns if not (c == MEAN and view.table.average)]
    rows = list(dict.fromkeys(row for row, _ in view.shown))
    scale = _scale(view.table.title)
    by_row, by_column = amounts(rows), amounts(columns)
    if by_row is not None:
        lines = {"": [_curve(view, column, [(x, row, column) for _, x, row in by_row]) for column in columns]}
        yield from _lines(lines, (_subject(view.table.title), scale))
    elif by_column is not None:
        groups: dict[str, list[Curve]] = {}
        for prefix in dict.fromkeys(p for p, _, _ in by_column):
            places = [(x, c) for p, x, c in by_column if p == prefix]
            groups[prefix] = [_curve(view, row, [(x, row, c) for x, c in places]) for row in rows]
        yield from _lines(groups, (_against(view.table.title, by_column), scale))
    elif view.table.parts != ("",) and tuple(columns) == view.table.parts:
        series = {row: [_mean(view.shown.get((row, c))) for c in columns] for row in rows}
        series = {row: values for row, values in series.items() if any(v is not None for v in values)}
        if series:
            yield Chart(f"{scale} by type.", lambda: more_charts.bars(columns, series, scale))
    elif len(columns) == 1:
        yield from _dots(
            view, {r: view.shown[r, columns[0]] for r in rows if (r, columns[0]) in view.shown}, columns[0]
        )
    elif view.table.average:
        yield from _dots(view, row_means(view.table, view.shown), MEAN)


def ranking(view: View) -> Ranking | None:
    """Systems ranked over the table's data sets; None if there are too few complete rows."""
    if not view.table.average:
        return None
    columns = [c for c in view.columns if c != MEAN]
    rows = list(dict.fromkeys(row for row, _ in view.shown))
    scores = {row: [_mean(view.shown.get((row, c))) for c in columns] for row in rows}
    whole = {row: [v for v in values if v is not None] for row, values in scores.items() if None not in values}
    if len(whole) < _FEWEST or len(columns) < _FEWEST:
        return None
    return rank_systems(whole)


def amounts(names: Sequence[str]) -> list[tuple[str, float, str]] | None:
    """(prefix, number, name) of names that all end in numbers, at least three under each prefix; else None.

    Example:
        >>> amounts(["es 10", "es 50", "es 100"])
        [('es', 10.0, 'es 10'), ('es', 50.0, 'es 50'), ('es', 100.0, 'es 100')]
        >>> amounts(["wnut2016", "wnut2017", "re3d"]) is None
        True
    """
    parsed = []
    for name in names:
        match = _AMOUNT.fullmatch(name)
        if match is None:
            return None
        parsed.append((match[1] or "", float(match[2]), name))
    prefixes = [prefix for prefix, _, _ in parsed]
    return parsed if parsed and all(prefixes.count(p) >= _FEWEST for p in prefixes) else None


def _lines(groups: Mapping[str, Sequence[Curve]], axes: tuple[str, str]) -> Iterator[Chart]:
    kept = {title: [c for c in group if c.xs] for title, group in groups.items()}
    kept = {title: group for title, group in kept.items() if group}
    if kept:
        what = f"{axes[1]} against {axes[0]}; bands or bars are one standard deviation over seeds to each side."
        yield Chart(what, lambda: charts.curves(kept, axes))


def _dots(view: View, places: Mapping[str, Runs], column: str) -> Iterator[Chart]:
    rows = []
    for row, place in places.items():
        if (s := place.summary) is not None:
            low, high = (None if v is None else v / 100 for v in (s.low, s.high))
            rows.append(ComparisonRow(row, s.mean / 100, low, high, s.n))
    printed = {row.name: published(view.table, row.name, column, view.columns) for row in rows}
    paper = {name: value / 100 for name, value in printed.items() if value is not None}
    if len(rows) > 1:
        over = "Mean F1 over all columns" if column == MEAN else f"F1 on {column}"
        what = f"{over} with its 95% interval over seeds" + (" and what the paper printed." if paper else ".")
        yield Chart(what, lambda: charts.dots(rows, paper))


def _curve(view: View, name: str, places: Sequence[tuple[float, str, str]]) -> Curve:
    points = []
    for x, row, column in sorted(places):
        place = view.shown.get((row, column))
        summary = place.summary if place else None
        if summary is not None:
            sd = summary.sd or 0.0
            points.append((x, summary.mean / 100, (summary.mean - sd) / 100, (summary.mean + sd) / 100))
    if not points:
        return Curve(name, (), ())
    xs, ys, lo, hi = zip(*points, strict=True)
    return Curve(name or view.table.name, xs, ys, lo, hi)


def _mean(place: Runs | None) -> float | None:
    summary = place.summary if place else None
    return None if summary is None else summary.mean / 100


def _scale(title: str) -> str:
    return "loss" if "loss" in title.lower() else "tokens" if "tagged tokens by type" in title else "F1"


def _subject(title: str) -> str:
    """``DATNet Table 5: α of GRAD on Spanish, F1 …`` is about ``α of GRAD``."""
    return re.split(r" on |,", title.split(": ", 1)[-1])[0]


def _against(title: str, numbered: Sequence[tuple[str, float, str]]) -> str:
    match = re.search(r"(?:against|by) (?:the )?(.+?)(?:,|$)", title)
    if match:
        return match[1]
    return "share of target labels" if max(x for _, x, _ in numbered) <= 1 else "labelled target sentences"
