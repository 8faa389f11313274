"""``python -m experiments``: list, run and show the papers' tables and figures."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, cast, get_args

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table as RichTable

from nershift.cli import main
from nershift.errors import ConfigError, SetupError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Every table and figure of the papers: list, run, show.",
)

HEAD = """# Results

Made by `python -m experiments show --markdown` from the files in `results/`, each of which holds its settings, seed,
data hashes, scores, machine and a hash of the code that ran. Ours: mean ± standard deviation of strict span F1 on test
over the seeds that were run, with the 95% interval of the mean; *paper*: as printed there, with ours minus theirs;
*minus best other*: against the best other row of the column, by approximate randomisation over the sentences of all
seeds. `docs/findings.md` says what we make of it.

"""

Results = Annotated[Path, typer.Option("--out", file_okay=False, help="Folder of result files.")]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds.")]


@app.command("list")
def list_(out: Results = Path("results")) -> None:
    """Name every experiment with its methods, corpora, seeds and an estimate of what it costs on one GPU.

    Hours are of an H200 that sixteen runs share, from steps and corpus sizes; finished runs in --out correct them.
    """
    from experiments.costs import Rates, total
    from experiments.papers import TABLES

    rates = Rates.learn(out)
    shown = RichTable(box=None, header_style="bold", padding=(0, 1, 1, 0))
    for column in ("name", "what"):
        shown.add_column(column, no_wrap=column == "name")
    for column in ("runs", "done", "seeds", "hours", "left"):
        shown.add_column(column, justify="right", no_wrap=True)
    for table in TABLES.values():
        cells = list({c.key: c for c in table.cells(table.seeds)}.values())
        corpora = dict.fromkeys(name for c in cells for name in (c.target, *c.sources))
        left = [c for c in cells if not c.path(out).exists()]
        what = f"{table.title}\n[dim]{', '.join(dict.fromkeys(c.method for c in cells))}\n{', '.join(corpora)}[/]"
        hours = [f"{total(some, rates).seconds / 3600:.2f}" for some in (cells, left)]
        counts = len(cells), len(cells) - len(left), len(table.seeds)
        shown.add_row(table.name, what, *map(str, counts), *hours)
    Console().print(shown)


@app.command("run")
def run(
    names: Annotated[list[str], typer.Argument(help="Experiments; see `python -m experiments list`.")],
    seeds: Seeds = 3,
    only: Annotated[list[str] | None, typer.Option("--only", help="Only these methods or targets.")] = None,
    out: Results = Path("results"),
    work: Annotated[Path, typer.Option("--work", file_okay=False, help="Folder for runs under way.")] = Path(
        "runs/experiments"
    ),
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Runs at once; default: one a core.")] = None,
    minutes: Annotated[float, typer.Option("--minutes", help="Stop after so long; what is done is kept.")] = 0,
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
    from experiments.papers import get_table
    from experiments.plan import By
    from experiments.pool import MakePool, run_grid

    cells = [c for name in names for c in get_table(name).cells(range(1, seeds + 1))]
    cells = [c for c in cells if not only or {c.method, c.target} & set(only)]
    order = cast(By, by)
    if order not in get_args(By):
        raise ConfigError(f"found '{by}'", place="--by", expected=" | ".join(get_args(By)))
    pool: MakePool | None = None
    if ray is not None:
        from experiments.ray_pool import RayPool

        pool = partial(RayPool, address=ray)
    outcome = run_grid(cells, out, work, workers=workers, minutes=minutes, by=order, gpu_gib=gpu_gib, pool=pool)
    console = Console(stderr=True)
    console.print(f"{outcome.done} results in {out}, {len(outcome.failed)} failed, {outcome.left} left")
    if outcome.smaller:
        console.print("out of memory, ran smaller:\n  " + "\n  ".join(outcome.smaller), markup=False)
    if outcome.failed:
        raise SetupError("some runs failed:\n  " + "\n  ".join(outcome.failed), fix=f"see {out}/failed, then run again")


@app.command("show")
def show(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments; default: all.")] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Number of seeds; default: each table's own.")
    ] = None,
    out: Results = Path("results"),
    plain: Annotated[bool, typer.Option("--markdown", help="Print Markdown source.")] = False,
) -> None:
    """Ours beside the paper's, cell by cell: mean, sd, interval, difference, significance, rule of selection."""
    from experiments.papers import TABLES, get_table
    from experiments.show import markdown

    chosen = range(1, seeds + 1) if seeds else None
    text = HEAD + "\n".join(markdown(get_table(n), out, chosen) for n in names or TABLES)
    if plain:
        typer.echo(text)
    else:
        Console().print(Markdown(text))


@app.command("report")
def report(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments; default: all.")] = None,
    out: Annotated[Path, typer.Option("--out", file_okay=False, help="Folder to write report.html into.")] = Path(
        "report"
    ),
    results: Annotated[Path, typer.Option("--results", help="Folder of result files.")] = Path("results"),
    plain: Annotated[bool, typer.Option("--markdown", help="Also write report.md.")] = False,
) -> None:
    """All results as one page that needs no network: tables, curves, sweeps, ranks, mistakes, examples."""
    from experiments.report import write

    for path in write(results, out, names, plain):
        typer.echo(str(path))


if __name__ == "__main__":
    main(app)
