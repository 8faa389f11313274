"""What all plots share: one style, and inline SVG that follows the page (matplotlib, extra ``report``).

Lines differ by style and marker and bars by hatch, so colour is never the only sign. Text and axes are drawn
in a placeholder colour that becomes ``currentColor`` and so follow the page; the SVG refers to nothing outside.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nershift.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#010203"  # replaced by currentColor
COLOURS = ("#3d7cc9", "#c8603c", "#3f9a6c", "#9a6cc2", "#b08a1e", "#7d8794")
GREY = COLOURS[5]
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
HATCHES = ("", "////", "\\\\\\\\", "xxxx", "----", "||||", "....", "++++")
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
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}


@contextmanager
def styled() -> Iterator[None]:
    """A context in which all plots have the same style.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("matplotlib", "report", "drawing plots") from None
    with matplotlib.rc_context(_STYLE):
        yield


def panels(height: float, rows: int = 1, ratios: Sequence[float] | None = None) -> tuple[Figure, list[Axes]]:
    """A figure of a height in inches with one panel per row, equally high unless ``ratios`` are given."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    cells = figure.add_gridspec(rows, 1, height_ratios=ratios)
    return figure, [figure.add_subplot(cells[i, 0]) for i in range(rows)]


def line(i: int, dense: bool = False) -> dict[str, Any]:
    """How the i-th line of a plot looks; ``dense`` lines have no markers."""
    return {
        "color": COLOURS[i % len(COLOURS)],
        "linestyle": LINES[i % len(LINES)],
        "marker": "" if dense else MARKERS[i % len(MARKERS)],
    }


def grid(ax: Axes, **more: Any) -> None:
    ax.grid(color=GREY, alpha=0.3, linewidth=0.5, **more)


def svg(figure: Figure) -> str:
    """The bare ``<svg>`` element: no prolog, metadata, fixed size or web address."""
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    head, rest = text.split(">", 1)
    head = re.sub(r'\s(?:xmlns(?::\w+)?|width|height|version)="[^"]*"', "", head)
    return f'{head} role="img">{rest}'.replace(INK, "currentColor").strip()
