"""The charts of reports. Call them inside :func:`drawing.styled`; values are fractions of 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nershift.evaluation.calibration import Reliability
from nershift.reports.drawing import COLOURS, GREY, HATCHES, grid, line, panels
from nershift.reports.model import ComparisonRow, Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TICKS = 7


def dots(rows: Sequence[ComparisonRow], published: Mapping[str, float] | None = None) -> Figure:
    """One row per system: a dot with its interval, and a cross for what a paper reports."""
    papers = published or {}
    figure, (ax,) = panels(0.6 + 0.3 * len(rows) + 0.3 * bool(papers))
    for i, row in enumerate(rows):
        mean = 100 * row.mean
        reach = [[0.0], [0.0]]
        if row.low is not None and row.high is not None:
            reach = [[max(0.0, mean - 100 * row.low)], [max(0.0, 100 * row.high - mean)]]
        ax.errorbar(
            [mean], [i], xerr=reach, fmt="o", color=COLOURS[0], capsize=3, markersize=5, linewidth=1.3,
            label="here" if i == 0 else None,
        )  # fmt: skip
    shown = [(100 * papers[row.name], i) for i, row in enumerate(rows) if row.name in papers]
    if shown:
        xs, ys = zip(*shown, strict=True)
        ax.plot(xs, ys, "x", color=COLOURS[1], markersize=6, markeredgewidth=1.5, label="paper")
        figure.legend(loc="outside upper center", ncols=2, fontsize=8)
    name_rows(ax, [row.name for row in rows])
    ax.set_xlabel("F1")
    grid(ax, axis="x")
    return figure


def curves(groups: Mapping[str, Sequence[Curve]], axes: tuple[str, str]) -> Figure:
    """Lines with bands, one panel per group, one legend for all."""
    names = list(dict.fromkeys(curve.name for group in groups.values() for curve in group))
    rows = -(-len(names) // 2)
    figure, every = panels(2.5 * len(groups) + 0.35 + 0.17 * rows, len(groups))
    handles: dict[str, Any] = {}
    for ax, (title, group) in zip(every, groups.items(), strict=True):
        for curve in group:
            look = line(names.index(curve.name))
            ys = [100 * y for y in curve.ys]
            (handles[curve.name],) = ax.plot(curve.xs, ys, markersize=4.5, linewidth=1.5, **look)
            if curve.lo and curve.hi:
                _spread(ax, curve, look["color"])
        _amounts(ax, sorted({x for curve in group for x in curve.xs}))
        if title:
            ax.set_title(title, fontsize=9, loc="left")
        ax.set_ylabel(axes[1])
        grid(ax)
    every[-1].set_xlabel(axes[0])
    figure.legend(
        handles.values(), handles, loc="outside upper center", ncols=2, fontsize=8, handlelength=3.2
    )  # fmt: skip
    return figure


def reliability(lines: Mapping[str, Reliability]) -> Figure:
    """How often entities of a confidence are right, for each of ``lines``; below, how many have it."""
    figure, (ax, below) = panels(3.9, 2, (3, 1))
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.9, linestyle=":")
    width = 0.08 / max(1, len(lines))
    for i, (name, measured) in enumerate(lines.items()):
        xs, ys = [b.confidence for b in measured.bins], [b.accuracy for b in measured.bins]
        look = line(i)
        ax.plot(xs, ys, markersize=4.5, linewidth=1.4, label=f"{name}, ECE {100 * measured.ece:.2f}", **look)
        places = [min(int(x * 10), 9) / 10 + 0.01 + (i + 0.5) * width for x in xs]
        below.bar(
            places, [b.n for b in measured.bins], width, edgecolor=look["color"], linewidth=0.7,
            facecolor=look["color"] + "80" if i == 0 else "none", hatch=HATCHES[i % len(HATCHES)],
        )  # fmt: skip
    for axis in (ax, below):
        axis.set_xlim(0, 1)
        grid(axis)
    ax.set_ylim(0, 1)
    ax.set_ylabel("share that is right")
    below.set_ylabel("entities")
    below.set_xlabel("confidence")
    ax.legend(loc="upper left", fontsize=8, handlelength=3.2)
    return figure


def _spread(ax: Axes, curve: Curve, colour: str) -> None:
    """A band; or, where only some points have a spread, a bar at each of these."""
    known = [(x, 100 * lo, 100 * hi) for x, lo, hi in zip(curve.xs, curve.lo, curve.hi, strict=True) if hi > lo]
    if known and len(known) == len(curve.xs) > 1:
        xs, lo, hi = zip(*known, strict=True)
        ax.fill_between(xs, lo, hi, color=colour, alpha=0.14, linewidth=0)
    for x, low, high in known if len(known) < len(curve.xs) or len(known) == 1 else ():
        ax.plot([x, x], [low, high], color=colour, linewidth=1)


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    ax.set_yticks(range(len(names)), list(names))
    ax.set_ylim(len(names) - 0.5, -0.5)


def _amounts(ax: Axes, xs: Sequence[float]) -> None:
    """Ticks where there are points; logarithmic where amounts span more than a factor of twenty."""
    from matplotlib.ticker import NullLocator

    if not xs or len(xs) < 2:
        return
    if xs[0] > 0 and xs[-1] >= 20 * xs[0]:
        ax.set_xscale("log")
        step = (len(xs) + _TICKS - 1) // _TICKS
        ax.set_xticks(list(xs[::step]), minor=False)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_locator(NullLocator())
