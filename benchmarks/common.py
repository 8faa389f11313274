"""What the benchmarks share: fair timing of rivals in one run, a table of ratios, and JSON for the record."""

from __future__ import annotations

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))  # where the package `experiments` lies


@dataclass(frozen=True)
class Row:
    """One case: milliseconds of the baseline and of ours (medians), and how far results differ."""

    case: str
    baseline_ms: float
    ours_ms: float
    difference: float | None = None
    extra: dict[str, float | str] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return self.baseline_ms / self.ours_ms


def time_rivals(
    rivals: Mapping[str, Callable[[], object]],
    device: str = "cpu",
    seconds: float = 3.0,
    warm_up: int = 5,
    most: int = 1000,
) -> dict[str, float]:
    """Median milliseconds of each rival.

    Rivals take turns, so that a busy machine slows all of them alike. On a GPU every run is timed from an
    idle device to an idle device, launch costs included.
    """
    for run in rivals.values():
        for _ in range(warm_up):
            run()
    times: dict[str, list[float]] = {name: [] for name in rivals}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end and len(next(iter(times.values()))) < most:
        for name, run in rivals.items():
            times[name].append(_once(run, device))
    return {name: statistics.median(found) for name, found in times.items()}


def _once(run: Callable[[], object], device: str) -> float:
    if device.startswith("cuda"):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop)
    began = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - began)


def machine(device: str = "cpu") -> dict[str, str | int]:
    """What the numbers were measured on."""
    found: dict[str, str | int] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": device,
    }
    if device.startswith("cuda"):
        found["gpu"] = torch.cuda.get_device_name()
    return found


def report(title: str, rows: list[Row], baseline: str, device: str = "cpu", out: Path | None = None) -> None:
    """Print the table and, when a file is named, write the same numbers as JSON."""
    extras = list(dict.fromkeys(name for row in rows for name in row.extra))
    table = Table(title=f"{title} ({', '.join(f'{k} {v}' for k, v in machine(device).items())})")
    for column in ("case", f"{baseline}, ms", "nershift, ms", "ratio", "largest difference", *extras):
        table.add_column(column, justify="left" if column == "case" else "right")
    for row in rows:
        cells = [row.case, f"{row.baseline_ms:.3f}", f"{row.ours_ms:.3f}", f"{row.ratio:.1f}x"]
        cells.append("" if row.difference is None else f"{row.difference:.1e}")
        table.add_row(*cells, *(_cell(row.extra.get(name, "")) for name in extras))
    Console().print(table)
    if out is not None:
        body = {"title": title, "baseline": baseline, "machine": machine(device)}
        lines = [{**asdict(row), "ratio": row.ratio} for row in rows]
        out.write_text(json.dumps({**body, "rows": lines}, indent=2) + "\n", encoding="utf-8")


def _cell(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"
