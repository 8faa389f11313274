"""`nershift bench`: the papers' tables and figures, one command each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table as RichTable

from nershift.errors import SetupError

bench = typer.Typer(no_args_is_help=True, help="Every table and figure of the papers: list, run, show.")

HEAD = """# Results

Made by `nershift bench show --markdown` from the files in `results/`, each of which holds its settings, seed, data
hashes, scores, machine and a hash of the code that ran. Ours: mean ± standard deviation of strict span F1 on test
over the seeds that were run; *paper*: as printed there. `docs/findings.md` says what we make of it.

"""

Results = Annotated[Path, typer.Option("--out", help="Folder of result files.")]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds.")]


@bench.command("list")
def list_() -> None:
    """Name every experiment with its size."""
    from nershift.bench.tables import tables

    shown = RichTable("name", "what", "runs", "corpora", box=None, header_style="bold")
    for table in tables().values():
        cells = table.cells(table.seeds)
        corpora = {c.target for c in cells} | {s for c in cells for s in c.sources}
        shown.add_row(table.name, table.title, str(len({c.key for c in cells})), str(len(corpora)))
    Console().print(shown)


@bench.command("run")
def run(
    names: Annotated[list[str], typer.Argument(help="Experiments; see `nershift bench list`.")],
    seeds: Seeds = 3,
    only: Annotated[list[str] | None, typer.Option("--only", help="Only these methods or targets.")] = None,
    out: Results = Path("results"),
    work: Annotated[Path, typer.Option("--work", help="Folder for runs under way.")] = Path("runs/bench"),
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Runs at once; default: one a core.")
    ] = None,
    minutes: Annotated[
        float, typer.Option("--minutes", help="Stop after so long; what is done is kept.")
    ] = 0,
) -> None:
    """Run the cells that have no result yet, many at once; resumes after any interruption."""
    from nershift.bench.pool import run_grid
    from nershift.bench.tables import get_table

    cells = [c for name in names for c in get_table(name).cells(range(1, seeds + 1))]
    cells = [c for c in cells if not only or {c.method, c.target} & set(only)]
    outcome = run_grid(cells, out, work, workers=workers, minutes=minutes)
    Console(stderr=True).print(
        f"{outcome.done} results in {out}, {len(outcome.failed)} failed, {outcome.left} left"
    )
    if outcome.failed:
        raise SetupError(
            "some runs failed:\n  " + "\n  ".join(outcome.failed), fix=f"see {out}/failed, then run again"
        )


@bench.command("show")
def show(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments; default: all.")] = None,
    seeds: Seeds = 3,
    out: Results = Path("results"),
    plain: Annotated[bool, typer.Option("--markdown", help="Print Markdown source.")] = False,
) -> None:
    """Ours beside the paper's, cell by cell."""
    from nershift.bench.show import markdown
    from nershift.bench.tables import get_table, tables

    text = HEAD + "\n".join(markdown(get_table(n), out, range(1, seeds + 1)) for n in names or tables())
    if plain:
        typer.echo(text)
    else:
        Console().print(Markdown(text))


def register(app: typer.Typer) -> None:
    app.add_typer(bench, name="bench")
