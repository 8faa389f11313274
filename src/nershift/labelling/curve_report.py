"""A study of learning curves as tables in the terminal, one page, one drawing, and JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from nershift.errors import MissingExtraError
from nershift.labelling.curve import CurveStudy, LearningCurve
from nershift.labelling.power_law import Fit, Reach
from nershift.reports import html as pages
from nershift.reports.content import ReportTable, interval, percent
from nershift.reports.drawing import GREY, grid, line, panels, styled
from nershift.reports.drawing import svg as svg_of
from nershift.reports.text import rich_table
from nershift.storage import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CAPTION = (
    "F1 against the number of labelled sentences: points are means over seeds, bands one standard deviation to each "
    "side, thin lines the fitted curves up to twice the data; dotted lines are the F1 values to reach."
)
POOR = 0.03  # distance of a curve from its points from which on it is said not to fit
_DRAWN = 60  # points of a fitted line


def verdict(study: CurveStudy) -> str:
    """The one sentence to read: the cheapest way to each goal."""
    parts = []
    for goal in study.goals:
        ways = sorted(study.reaches(goal).items(), key=lambda way: way[1].sentences)
        if not ways:
            continue
        method, way = ways[0]
        link, end = (" needs ", f" with {method}") if math.isfinite(way.sentences) else (": ", "")
        parts.append(f"F1 {percent(goal)}{link}{in_words(way)}{end}")
    return "; ".join(parts) + "." if parts else "Too few sizes to fit a curve."


def in_words(reach: Reach) -> str:
    """``about 480 labelled sentences (95 % interval 350 to 800), extrapolated``."""
    if reach.where == "not reachable":
        return "not reachable by this curve"
    if reach.where == "below the data":
        return "no more labelled sentences than the fewest tried"
    text = f"about {rounded(reach.sentences)} labelled sentences"
    if reach.low is not None and reach.high is not None:
        text += f" (95 % interval {rounded(reach.low)} to {rounded(reach.high)})"
    if reach.where == "beyond the data":
        return f"{text}, extrapolated"
    if reach.where == "beyond twice the data":
        return f"{text}, a guess: more than twice the data measured"
    return text


def rounded(n: float) -> str:
    """Two significant digits for large numbers, since the curve knows no more; ``∞`` where there is none.

    Example:
        >>> rounded(48.7), rounded(1234.0), rounded(float("inf"))
        ('49', '1,200', '∞')
    """
    if math.isinf(n):
        return "∞"
    return f"{round(n):,}" if n < 100 else f"{round(n, 1 - math.floor(math.log10(n))):,.0f}"


def tables(study: CurveStudy) -> list[ReportTable]:
    """Measured scores, fitted curves, and sentences to each goal."""
    fitted = [(c, c.fit) for c in study.curves if c.fit is not None]
    shown = [_measured(study)]
    if fitted:
        shown += [_fitted(fitted), _reached(study)]
    return shown


def _measured(study: CurveStudy) -> ReportTable:
    sizes = sorted({n for c in study.curves for n in c.sizes})
    rows = []
    for n in sizes:
        cells = []
        for curve in study.curves:
            summary = dict(zip(curve.sizes, curve.summaries, strict=True)).get(n)
            spread = f" ± {percent(summary.sd)}" if summary is not None and summary.sd is not None else ""
            cells.append(f"{percent(summary.mean)}{spread}" if summary is not None else "–")
        rows.append((f"{n:,}" if n else "none", *cells))
    seeds = f"{len(study.seeds)} seeds" if len(study.seeds) > 1 else "one seed"
    note = f"F1 on {study.split}, mean ± standard deviation over {seeds}."
    if study.selected_on:
        note += f" Models were selected on {study.selected_on:,} labelled dev sentences, which are not counted here."
    if study.split == "dev":
        note += " There is no test split: scored on dev"
        note += ", on which the models were also selected, so too high." if study.selected_on else "."
    headers = ("labelled sentences", *(c.method for c in study.curves))
    return ReportTable("measured", "Measured", headers, tuple(rows), words=0, note=note)


def _fitted(fitted: list[tuple[LearningCurve, Fit]]) -> ReportTable:
    rows = []
    for curve, fit in fitted:
        law = fit.law
        value, low, high = fit.at(2 * fit.largest)
        formula = f"{100 * law.ceiling:.1f} - {100 * law.drop:.3g} n^-{law.rate:.2f}"
        cells = (formula, percent(fit.error), percent(value), interval(low, high))
        rows.append((curve.method, *cells))
    headers = ("method", "F1 at n sentences", "misfit", "at twice the data", "95 % interval")
    note = (
        "Intervals come from seeds alone. That the true curve has another shape is not in them: "
        "trust what lies beyond twice the data least."
    )
    if poor := [curve.method for curve, fit in fitted if fit.error > POOR]:
        note += f" The curve misses the points of {', '.join(poor)}: do not trust it there."
    return ReportTable("fitted", "Fitted curves", headers, tuple(rows), note=note)


def _reached(study: CurveStudy) -> ReportTable:
    rows = []
    for goal in study.goals:
        for method, reach in study.reaches(goal).items():
            bounds = "–"
            if reach.low is not None and reach.high is not None:
                bounds = f"{rounded(reach.low)} – {rounded(reach.high)}"
            number = "–" if math.isinf(reach.sentences) else rounded(reach.sentences)
            where = "not reachable by this curve" if reach.where == "not reachable" else reach.where
            rows.append((percent(goal), method, number, bounds, where))
    headers = ("F1", "method", "sentences", "95 % interval", "where")
    return ReportTable("reach", "How many sentences to reach it", headers, tuple(rows), words=2)


def as_text(study: CurveStudy) -> Group:
    """For a terminal."""
    parts: list[RenderableType] = [Text(f"Learning curves on {study.target}", "bold"), Text(verdict(study))]
    for table in tables(study):
        parts += [Text(), rich_table(table)]
    return Group(*parts)


def as_html(study: CurveStudy) -> str:
    """One page, nothing fetched."""
    svg, missing = "", None
    try:
        svg = draw(study)
    except MissingExtraError as error:
        missing = error
    title = f"Learning curves on {study.target}"
    shown = {"verdict": verdict(study), "tables": tables(study), "svg": svg, "caption": _CAPTION, "missing": missing}
    return pages.page("curve.html", title=title, **shown)


def save(study: CurveStudy, folder: str | Path) -> list[Path]:
    """Write ``curve.json`` and ``curve.html``, and ``curve.svg`` where matplotlib is installed."""
    folder = Path(folder)
    files = [folder / "curve.json", folder / "curve.html"]
    write_text(files[0], json.dumps(study.to_dict(), indent=1) + "\n")
    pages.write_page(files[1], as_html(study))
    try:
        drawn = draw(study)
    except MissingExtraError:
        return files
    alone = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" style="color:#222"'
    write_text(folder / "curve.svg", drawn.replace("<svg", alone, 1) + "\n")
    return [*files, folder / "curve.svg"]


def draw(study: CurveStudy) -> str:
    """The drawing as SVG.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with styled():
        return svg_of(_figure(study))


def _figure(study: CurveStudy) -> Figure:
    rows = -(-len(study.curves) // 2)
    figure, (ax,) = panels(3.0 + 0.17 * rows)
    handles: dict[str, Any] = {}
    most = max(n for c in study.curves for n in c.sizes)
    least = min((n for c in study.curves for n in c.sizes if n), default=1)
    for i, curve in enumerate(study.curves):
        look = line(i)
        means = [100 * s.mean for s in curve.summaries]
        if curve.sizes == (0,):  # needs no labels: the same F1 whatever one has
            handles[curve.method] = ax.axhline(means[0], color=look["color"], linestyle=look["linestyle"])
            continue
        style = {**look, "linestyle": ""} if curve.fit else look
        ax.plot(curve.sizes, means, markersize=5, linewidth=1.5, **style)
        (handles[curve.method],) = ax.plot([], [], markersize=5, linewidth=1, **look)
        sds = [100 * (s.sd or 0.0) for s in curve.summaries]
        low, high = ([m + side * sd for m, sd in zip(means, sds, strict=True)] for side in (-1, 1))
        ax.fill_between(curve.sizes, low, high, color=look["color"], alpha=0.14, linewidth=0)
        if curve.fit is not None:
            ends = curve.sizes[0], 2 * curve.fit.largest
            xs = [ends[0] * (ends[1] / ends[0]) ** (k / (_DRAWN - 1)) for k in range(_DRAWN)]
            ys = [100 * curve.fit.law(x) for x in xs]
            ax.plot(xs, ys, color=look["color"], linestyle=look["linestyle"], linewidth=1)
    for goal in study.goals:
        ax.axhline(100 * goal, color=GREY, linestyle=":", linewidth=1)
    ax.axvline(most, color=GREY, linewidth=0.6)
    if most >= 8 * least:
        ax.set_xscale("log")
        ticks = sorted({n for c in study.curves for n in c.sizes if n} | {2 * most})
        ax.set_xticks(ticks[-7:], [f"{n:g}" for n in ticks[-7:]])
        ax.minorticks_off()
    ax.set_xlabel("labelled sentences")
    ax.set_ylabel(f"F1 on {study.split}")
    grid(ax)
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=2, fontsize=8, handlelength=3.2)
    return figure
