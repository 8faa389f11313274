"""`states`: do source and target look alike to the shared layer?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nershift.console import make_console
from nershift.errors import CheckpointError


def states(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs, e.g. of datnet.")],
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with the pictures here.")] = None,
) -> None:
    """Draw the shared states of source and target for each run, with the proxy A-distance beside it."""
    from nershift.reports.html import save
    from nershift.reports.model import RunReport
    from nershift.reports.states import states_of_run
    from nershift.reports.text import render

    maps = []
    for folder in runs:
        if not folder.is_dir():
            raise CheckpointError("there is no such folder", place=str(folder), fix="check the path")
        drawn = states_of_run(folder, folder.resolve().name)
        if drawn is None:
            raise CheckpointError(
                "holds no shared states",
                place=str(folder),
                expected="the folder of a finished run of a method with a shared encoder, such as datnet",
            )
        maps.append(drawn)
    report = RunReport("Shared states of source and target", states=tuple(maps))
    make_console().print(render(report))
    if html:
        save(report, html)


def register(app: typer.Typer) -> None:
    app.command("states")(states)
