"""``python -m experiments``: list, run and show the papers' tables and figures."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from rich.markdown import Markdown
from rich.table import Table as RichTable

from experiments.costs import Rates, total
from experiments.fit.evidence import FILE, collect, write
from experiments.pages import write_pages
from experiments.papers import TABLES, get_table
from experiments.plan import By
from experiments.pool import JOB_MINUTES, MakePool, run_grid
from experiments.show import markdown
from experiments.store import ROOT, WORK, ResultStore
from nershift.cli import main
from nershift.console import make_console, say
from nershift.errors import ConfigError, SetupError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Every table and figure of the papers: list, run, show.",
)
Results = Annotated[
    Path, typer.Option("--results", file_okay=False, help="Folder of the papers' result files, PAPER/results.jsonl.gz.")
]
Work = Annotated[Path, typer.Option("--work", file_okay=False, help="Folder for runs under way.")]
Names = Annotated[list[str] | None, typer.Argument(help="Experiments; default: all.")]


@app.command("list")
def list_(results: Results = ROOT, work: Work = WORK) -> None:
    """Name every experiment with its methods, corpora, seeds and an estimate of what it costs on one GPU.

    Hours are those of an H200 that sixteen runs share (without a GPU: of two cores), estimated from updates and corpus
    sizes and corrected by the finished runs.
    """
    store = ResultStore(results, work)
    rates = Rates.learn(store)
    shown = RichTable(box=None, header_style="bold", padding=(0, 1, 1, 0))
    for column in ("name", "what"):
        shown.add_column(column, no_wrap=column == "name")
    for column in ("runs", "done", "seeds", "hours", "left"):
        shown.add_column(column, justify="right", no_wrap=True)
    for table in TABLES.values():
        cells = list({c.key: c for c in table.cells(table.seeds)}.values())
        corpora = dict.fromkeys(name for c in cells for name in (c.target, *c.sources))
        left = [c for c in cells if c not in store]
        what = f"{table.title}\n[dim]{', '.join(dict.fromkeys(c.method for c in cells))}\n{', '.join(corpora)}[/]"
        hours = [f"{total(some, rates).seconds / 3600:.2f}" for some in (cells, left)]
        counts = len(cells), len(cells) - len(left), len(table.seeds)
        shown.add_row(table.name, what, *map(str, counts), *hours)
    make_console().print(shown)


@app.command("run")
def run(
    names: Annotated[list[str], typer.Argument(help="Experiments; see `python -m experiments list`.")],
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds.")] = 3,
    only: Annotated[list[str] | None, typer.Option("--only", help="Only these methods, targets or rows.")] = None,
    results: Results = ROOT,
    work: Work = WORK,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Runs at once; default: one per core.")
    ] = None,
    minutes: Annotated[
        float, typer.Option("--minutes", help="Stop after this many minutes; finished runs are kept.")
    ] = 0,
    job_minutes: Annotated[
        float, typer.Option("--job-minutes", min=0.01, help="A run that takes longer hangs: it is ended, and failed.")
    ] = JOB_MINUTES,
    gpu_gib: Annotated[
        float | None,
        typer.Option("--gpu-gib", min=1.0, help="GPU memory to count on; default: all that is free."),
    ] = None,
    by: Annotated[
        str,
        typer.Option("--by", help="Finish table after table, or the first seed of all tables first (seed)."),
    ] = "table",
    ray: Annotated[
        str | None,
        typer.Option("--ray", help="Run on the Ray cluster at this address (auto: of this machine; local: a new one)."),
    ] = None,
) -> None:
    """Run the cells that have no result yet, many at once; resumes after any interruption."""
    cells = [c for name in names for c in get_table(name).cells(range(1, seeds + 1))]
    cells = [c for c in cells if not only or {c.method, c.target, c.name} & set(only)]
    order = cast(By, by)
    if order not in get_args(By):
        raise ConfigError(f"found '{by}'", place="--by", expected=" | ".join(get_args(By)))
    pool: MakePool | None = None
    if ray is not None:
        from experiments.ray_pool import RayPool

        pool = partial(RayPool, address=ray)
    store = ResultStore(results, work)
    limits: dict[str, Any] = {"workers": workers, "minutes": minutes, "job_minutes": job_minutes, "gpu_gib": gpu_gib}
    outcome = run_grid(cells, store, by=order, pool=pool, **limits)
    console = make_console(stderr=True)
    console.print(f"{outcome.done} results in {results}, {len(outcome.failed)} failed, {outcome.left} left")
    if outcome.smaller:
        console.print("out of memory, ran smaller:\n  " + "\n  ".join(outcome.smaller), markup=False)
    if outcome.failed:
        failed = "\n  ".join(outcome.failed)
        raise SetupError(f"some runs failed:\n  {failed}", fix=f"see {work}/failed, then run again")


@app.command("merge")
def merge(results: Results = ROOT, work: Work = WORK) -> None:
    """Move finished runs of an interrupted grid, or of another machine, from --work into the papers' result files."""
    say(f"{ResultStore(results, work).merge()} runs merged into {results}")


@app.command("evidence")
def evidence(results: Results = ROOT, work: Work = WORK) -> None:
    """Write what `nershift fit` knows anew: the results that are runs of one of its recipes."""
    rows = collect(ResultStore(results, work))
    write(rows)
    say(f"{len(rows)} runs of recipes in {FILE}")


@app.command("show")
def show(
    names: Names = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Number of seeds; default: each table's own.")
    ] = None,
    results: Results = ROOT,
    work: Work = WORK,
    plain: Annotated[
        bool,
        typer.Option("--markdown", help="Print Markdown source; without names: write the README.md of every paper."),
    ] = False,
) -> None:
    """Ours beside the paper's, cell by cell: mean, sd, interval, difference, significance, rule of selection."""
    store = ResultStore(results, work)
    if plain and not names:
        store.merge()
        for path in write_pages(store):
            say(str(path))
        return
    chosen = range(1, seeds + 1) if seeds else None
    text = "\n".join(markdown(get_table(name), store, chosen) for name in names or TABLES)
    if plain:
        say(text)
    else:
        make_console().print(Markdown(text))


@app.command("report")
def report(
    names: Names = None,
    out: Annotated[Path, typer.Option("--out", file_okay=False, help="Folder to write report.html into.")] = Path(
        "report"
    ),
    results: Results = ROOT,
    work: Work = WORK,
    plain: Annotated[bool, typer.Option("--markdown", help="Also write report.md.")] = False,
) -> None:
    """All results as one page that needs no network: tables, curves, sweeps, ranks, errors, examples."""
    from experiments.report import write

    for path in write(ResultStore(results, work), out, names, plain):
        say(str(path))


if __name__ == "__main__":
    main(app)
