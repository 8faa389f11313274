"""Charts that only the pages of experiments have. Call them inside :func:`nershift.reports.drawing.styled`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments.ranks import Ranking
from nershift.reports.charts import name_rows
from nershift.reports.drawing import COLOURS, GREY, HATCHES, INK, grid, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def bars(names: Sequence[str], series: Mapping[str, Sequence[float | None]], scale: str = "F1") -> Figure:
    """Groups of bars: one group per name, one bar per series."""
    height, many = 0.8 / max(1, len(series)), len(names)
    figure, (ax,) = panels(0.7 + 0.17 * many * max(2, len(series)) + 0.17 * -(-len(series) // 2))
    for i, (label, values) in enumerate(series.items()):
        hatch, colour = HATCHES[i % len(HATCHES)], COLOURS[i % len(COLOURS)]
        ax.barh(
            [n - 0.4 + (i + 0.5) * height for n in range(many)],
            [100 * v if v is not None else 0.0 for v in values],
            0.9 * height, label=label, edgecolor=colour, hatch=hatch, linewidth=0.7,
            facecolor="none" if hatch else colour + "80",
        )  # fmt: skip
    name_rows(ax, names)
    ax.set_xlabel(scale)
    grid(ax, axis="x")
    figure.legend(loc="outside upper center", ncols=2, fontsize=8, handlelength=2.2)
    return figure


def critical_difference(ranking: Ranking) -> Figure:
    """Mean ranks; two systems whose bars overlap do not differ significantly."""
    figure, (ax,) = panels(0.75 + 0.27 * len(ranking.names))
    half = ranking.difference / 2
    for i, rank in enumerate(ranking.ranks):
        ax.plot([rank - half, rank + half], [i, i], color=COLOURS[0], alpha=0.45, linewidth=5)
        ax.plot([rank], [i], "o", color=INK, markersize=4.5)
    best = ranking.ranks[0] + half
    ax.axvline(best, color=GREY, linestyle=":", linewidth=1)
    name_rows(ax, ranking.names)
    ax.set_xlabel("mean rank (1 is best)")
    grid(ax, axis="x")
    return figure
