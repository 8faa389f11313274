"""Which plots a run's report has: SVG by the key of the table each goes with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nershift.evaluation.error_analysis import KINDS, Analysis
from nershift.reports import charts
from nershift.reports.content import KIND_NAMES, calibration_lines
from nershift.reports.drawing import COLOURS, HATCHES, grid, line, panels, styled, svg
from nershift.reports.model import RunReport
from nershift.reports.states import StateMap

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plots(report: RunReport) -> dict[str, str]:
    """Those that the report has values for, of ``comparisons curves errors reliability states log``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figures: dict[str, Figure] = {}
    with styled():
        if len(report.comparisons) > 1:
            figures["comparisons"] = charts.dots(report.comparisons)
        if report.curves:
            figures["curves"] = charts.curves({"": report.curves}, report.curve_axes)
        if report.analysis is not None and report.analysis.kinds:
            figures["errors"] = _kinds(report.analysis)
        if lines := calibration_lines(report):
            figures["reliability"] = charts.reliability(lines)
        if report.states:
            figures["states"] = _states(report.states)
        if len(report.log) > 1 and (names := _series(report.log)):
            figures["log"] = _log(report.log, names)
        return {key: svg(figure) for key, figure in figures.items()}


def _kinds(analysis: Analysis) -> Figure:
    labels = sorted(analysis.kinds, key=lambda label: -sum(analysis.kinds[label].values()))[:15]
    figure, (ax,) = panels(0.95 + 0.27 * len(labels))
    left = [0.0] * len(labels)
    for i, kind in enumerate(KINDS):
        totals = [sum(analysis.kinds[label].values()) for label in labels]
        shares = [100 * analysis.kinds[label][kind] / n for label, n in zip(labels, totals, strict=True)]
        face = "none" if HATCHES[i] else COLOURS[i] + "80"  # SVG hatches would cover a pale face
        ax.barh(
            range(len(labels)), shares, 0.68, left=left, label=KIND_NAMES[kind], facecolor=face,
            edgecolor=COLOURS[i], hatch=HATCHES[i], linewidth=0.7,
        )  # fmt: skip
        left = [a + b for a, b in zip(left, shares, strict=True)]
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.set_xlim(0, 100)
    ax.set_xlabel("share of gold and spurious spans, %")
    figure.legend(loc="outside upper center", ncols=3, fontsize=8, handlelength=2.2)
    return figure


def _states(maps: Sequence[StateMap]) -> Figure:
    """One panel per run: source as rings, target as filled squares."""
    figure, rows = panels(2.6 * len(maps), len(maps))
    for ax, states in zip(rows, maps, strict=True):
        ax.scatter(
            [x for x, _ in states.source], [y for _, y in states.source], s=9, marker="o", facecolor="none",
            edgecolor=COLOURS[1], linewidth=0.7, label="source",
        )  # fmt: skip
        ax.scatter(
            [x for x, _ in states.target], [y for _, y in states.target], s=9, marker="s", color=COLOURS[0],
            label="target",
        )  # fmt: skip
        ax.set_title(f"{states.name}: {states.picture}, A-distance {states.a_distance:.2f}", fontsize=9, loc="left")
        ax.set_xticks([])
        ax.set_yticks([])
    rows[0].legend(loc="best", fontsize=8)
    return figure


def _series(log: Sequence[Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(k for entry in log for k, v in entry.items() if isinstance(v, float))
    return [name for name in names if name not in ("step", "epoch")][:6]


def _log(log: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Figure:
    """One panel for each value, one line for each stage, side by side in the order they ran."""
    figure, rows = panels(0.5 + 1.15 * len(names), len(names))
    stages = list(dict.fromkeys(str(entry.get("phase", "")) for entry in log))
    for ax, name in zip(rows, names, strict=True):
        start = 0.0
        for i, stage in enumerate(stages):
            entries = [e for e in log if str(e.get("phase", "")) == stage]
            steps = [float(e.get("step", n + 1)) for n, e in enumerate(entries)]
            known = [(start + x, e[name]) for x, e in zip(steps, entries, strict=True) if e.get(name) is not None]
            if known:
                ax.plot(
                    *zip(*known, strict=True), label=stage, markersize=3, linewidth=1.3, **line(i, len(known) > 30),
                )  # fmt: skip
            start += max(steps)
        ax.set_title(name.replace("_", " "), fontsize=9, loc="left")
        grid(ax)
    for ax in rows[1:]:
        ax.sharex(rows[0])
    rows[-1].set_xlabel("updates")
    if len(stages) > 1:
        rows[0].legend(fontsize=8, handlelength=3)
    return figure
