"""How much of the labels a curve needs to reach what another method has with all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from experiments.scores import Runs
from experiments.store import ResultStore
from experiments.table import Place, Table


def reached(curve: Sequence[tuple[float, float]], bound: float) -> float | None:
    """The first x, on straight lines between the points ``(x, y)``, where the curve is at ``bound``; None: nowhere.

    Example:
        >>> reached([(0.25, 60.0), (0.5, 70.0), (1.0, 69.0)], 65.0)
        0.375
    """
    before: tuple[float, float] | None = None
    for x, y in curve:
        if y >= bound:
            if before is None:
                return x
            return before[0] + (x - before[0]) * (bound - before[1]) / (y - before[1])
        before = x, y
    return None


def share_notes(table: Table, shown: Mapping[Place, Runs], store: ResultStore, seeds: Sequence[int]) -> Iterator[str]:
    """By row, where its curve reaches the table's bound, by the means of the seeds that both have."""
    if not table.bound:
        return
    rows, columns = table.layout()
    bounds: dict[str, dict[int, float]] = {}
    for cell in table.bounds(seeds):
        if (result := store.get(cell)) is not None:
            bounds.setdefault(cell.target, {})[cell.seed] = 100 * float(result.metrics["test"]["f1"])
    shares, known = [], []
    for row in rows:
        places = [shown[row, column] for column in columns]
        if not all(place.scores for place in places):
            continue
        target = places[0].cells[0].target
        shared = set(bounds.get(target, ())).intersection(*(place.seeds for place in places))
        if not shared:
            continue
        curve = [(float(c), fmean(p.of_seeds(shared).scores)) for c, p in zip(columns, places, strict=True)]
        share = reached(curve, fmean(bounds[target][s] for s in shared))
        known.append(share)
        shares.append(f"{row} {'nowhere' if share is None else f'{100 * share:.0f}%'}")
    if shares:
        reached_at = [share for share in known if share is not None]
        mean = f"; {100 * sum(reached_at) / len(reached_at):.0f}% on average where it does" if reached_at else ""
        yield f"Share of labels at which it reaches In-Domain with all of them: {', '.join(shares)}{mean}."
