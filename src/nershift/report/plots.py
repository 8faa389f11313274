"""Plots as inline SVG (matplotlib, extra ``report``), readable in print, on a phone, in light and in dark.

Lines differ by style and marker and bars by hatch, so colour is never the only sign. Text and axes are drawn
in a stand-in colour that becomes ``currentColor`` and so follow the page; nothing in the SVG points outside.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nershift.errors import MissingExtraError
from nershift.eval.analysis import KINDS, Analysis
from nershift.report.content import KIND_NAMES
from nershift.report.model import ComparisonRow, Curve, RunReport
from nershift.report.states import StateMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#010203"  # replaced by currentColor
_COLOURS = ("#3d7cc9", "#c8603c", "#3f9a6c", "#9a6cc2", "#b08a1e", "#7d8794")
_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
_MARKERS = ("o", "s", "^", "D", "v", "P")
_HATCHES = ("", "////", "\\\\\\\\", "xxxx", "----", "||||")
_WIDTH = 4.6  # inches; narrow, so that the letters stay readable on a phone
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "nershift",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
}


def plots(report: RunReport) -> dict[str, str]:
    """SVG by the key of the table it goes with (``comparisons curves errors states log``), where there is material.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("matplotlib", "report", "drawing plots") from None
    made: dict[str, Figure] = {}
    with matplotlib.rc_context(_STYLE):
        if len(report.comparisons) > 1:
            made["comparisons"] = _comparisons(report.comparisons)
        if report.curves:
            made["curves"] = _curves(report.curves, report.curve_axes)
        if report.analysis is not None and report.analysis.kinds:
            made["errors"] = _kinds(report.analysis)
        if report.states:
            made["states"] = _states(report.states)
        if len(report.log) > 1 and (names := _series(report.log)):
            made["log"] = _log(report.log, names)
        return {key: _svg(figure) for key, figure in made.items()}


def _axes(height: float, rows: int = 1) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    return figure, [figure.add_subplot(rows, 1, i + 1) for i in range(rows)]


def _comparisons(rows: Sequence[ComparisonRow]) -> Figure:
    figure, (ax,) = _axes(0.6 + 0.3 * len(rows))
    for i, row in enumerate(rows):
        mean = 100 * row.mean
        reach = [[0.0], [0.0]]
        if row.low is not None and row.high is not None:
            reach = [[mean - 100 * row.low], [100 * row.high - mean]]
        ax.errorbar(
            [mean], [i], xerr=reach, fmt="o", color=_COLOURS[0], capsize=3, markersize=5, linewidth=1.3
        )
    ax.set_yticks(range(len(rows)), [row.name for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel("F1")
    ax.grid(axis="x", color=_COLOURS[5], alpha=0.3, linewidth=0.5)
    return figure


def _curves(curves: Sequence[Curve], axes: tuple[str, str]) -> Figure:
    figure, (ax,) = _axes(3.1)
    for i, curve in enumerate(curves):
        ys = [100 * y for y in curve.ys]
        reach = None
        if curve.lo and curve.hi:
            reach = [
                [max(0.0, y - 100 * lo) for y, lo in zip(ys, curve.lo, strict=True)],
                [max(0.0, 100 * hi - y) for y, hi in zip(ys, curve.hi, strict=True)],
            ]
        ax.errorbar(
            curve.xs, ys, yerr=reach, label=curve.name, color=_COLOURS[i % 6], linestyle=_LINES[i % 6],
            marker=_MARKERS[i % 6], markersize=4.5, linewidth=1.5, capsize=2.5, elinewidth=0.8,
        )  # fmt: skip
    xs = sorted({x for curve in curves for x in curve.xs})
    if xs and xs[0] > 0 and xs[-1] >= 20 * xs[0]:
        ax.set_xscale("log")
        ax.set_xticks(xs if len(xs) <= 7 else xs[:: (len(xs) + 6) // 7], minor=False)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_locator(_no_ticks())
    ax.set_xlabel(axes[0])
    ax.set_ylabel(axes[1])
    ax.grid(color=_COLOURS[5], alpha=0.3, linewidth=0.5)
    ax.legend(loc="best", fontsize=8, handlelength=3)
    return figure


def _kinds(analysis: Analysis) -> Figure:
    labels = sorted(analysis.kinds, key=lambda label: -sum(analysis.kinds[label].values()))[:15]
    figure, (ax,) = _axes(0.95 + 0.27 * len(labels))
    left = [0.0] * len(labels)
    for i, kind in enumerate(KINDS):
        totals = [sum(analysis.kinds[label].values()) for label in labels]
        shares = [100 * analysis.kinds[label][kind] / n for label, n in zip(labels, totals, strict=True)]
        face = "none" if _HATCHES[i] else _COLOURS[i] + "80"  # SVG hatches would cover a pale face
        ax.barh(
            range(len(labels)), shares, 0.68, left=left, label=KIND_NAMES[kind], facecolor=face,
            edgecolor=_COLOURS[i], hatch=_HATCHES[i], linewidth=0.7,
        )  # fmt: skip
        left = [a + b for a, b in zip(left, shares, strict=True)]
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.set_xlim(0, 100)
    ax.set_xlabel("share of gold and spurious spans, %")
    figure.legend(loc="outside upper center", ncols=3, fontsize=8, handlelength=2.2)
    return figure


def _states(maps: Sequence[StateMap]) -> Figure:
    """A panel for each run: source as rings, target as filled squares."""
    figure, panels = _axes(2.6 * len(maps), len(maps))
    for ax, found in zip(panels, maps, strict=True):
        ax.scatter(
            [x for x, _ in found.source], [y for _, y in found.source], s=9, marker="o", facecolor="none",
            edgecolor=_COLOURS[1], linewidth=0.7, label="source",
        )  # fmt: skip
        ax.scatter(
            [x for x, _ in found.target], [y for _, y in found.target], s=9, marker="s", color=_COLOURS[0],
            label="target",
        )  # fmt: skip
        ax.set_title(
            f"{found.name}: {found.picture}, A-distance {found.a_distance:.2f}", fontsize=9, loc="left"
        )
        ax.set_xticks([])
        ax.set_yticks([])
    panels[0].legend(loc="best", fontsize=8)
    return figure


def _series(log: Sequence[Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(k for entry in log for k, v in entry.items() if isinstance(v, float))
    return [name for name in names if name not in ("step", "epoch")][:6]


def _log(log: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Figure:
    """One panel for each value, one line for each phase, side by side in the order they ran."""
    figure, panels = _axes(0.5 + 1.15 * len(names), len(names))
    phases = list(dict.fromkeys(str(entry.get("phase", "")) for entry in log))
    for ax, name in zip(panels, names, strict=True):
        start = 0.0
        for i, phase in enumerate(phases):
            entries = [e for e in log if str(e.get("phase", "")) == phase]
            steps = [float(e.get("step", n + 1)) for n, e in enumerate(entries)]
            known = [
                (start + x, e[name]) for x, e in zip(steps, entries, strict=True) if e.get(name) is not None
            ]
            if known:
                ax.plot(
                    *zip(*known, strict=True), label=phase, color=_COLOURS[i % 6], linestyle=_LINES[i % 6],
                    marker=_MARKERS[i % 6] if len(known) <= 30 else "", markersize=3, linewidth=1.3,
                )  # fmt: skip
            start += max(steps)
        ax.set_title(name.replace("_", " "), fontsize=9, loc="left")
        ax.grid(color=_COLOURS[5], alpha=0.3, linewidth=0.5)
    for ax in panels[1:]:
        ax.sharex(panels[0])
    panels[-1].set_xlabel("step")
    if len(phases) > 1:
        panels[0].legend(fontsize=8, handlelength=3)
    return figure


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _svg(figure: Figure) -> str:
    """The bare ``<svg>`` element: no prolog, metadata, fixed size or web address."""
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    head, rest = text.split(">", 1)
    head = re.sub(r'\s(?:xmlns(?::\w+)?|width|height|version)="[^"]*"', "", head)
    return f'{head} role="img">{rest}'.replace(_INK, "currentColor").strip()
