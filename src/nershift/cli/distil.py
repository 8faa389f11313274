"""`distil`: from large taggers, or several, to a small one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nershift.cli import options as o
from nershift.console import make_console

Teachers = Annotated[
    list[str], typer.Option("--teacher", help="Folders of finished runs; several may follow, and are averaged.")
]
Texts = Annotated[
    list[str], typer.Option("--raw", help="Unlabelled text of the domain, one sentence per line; several may follow.")
]
Student = Annotated[str, typer.Option("--student", help="recurrent, or transformer:NAME (a folder or hub name).")]
Scored = Annotated[
    str | None, typer.Option("--target", help="A corpus to score teachers and student on; no label of it is learned.")
]
Labels = Annotated[
    int, typer.Option("--shots", min=0, help="Learn this many labelled sentences of --target beside the text.")
]


def distil(
    teacher: Teachers,
    raw: Texts,
    out: o.Out,
    student: Student = "recurrent",
    target: Scored = None,
    shots: Labels = 0,
    seed: o.Seed = None,
    config: o.ConfigFile = None,
    set_: o.Settings = None,
    hold_out: o.HoldOut = None,
    nested: o.Nested = False,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
) -> None:
    """Make one small tagger of large ones, by what they say of unlabelled text.

    Give several runs as --teacher to distil their vote. The report says what the student lost and how fast it is.
    """
    from nershift.data.raw import Joined
    from nershift.distillation import distil as run
    from nershift.reports.run import show_run

    texts = [o.raw_texts([f"target={path}"])["target"] for listed in raw for path in listed.split(",") if path]
    done = run(
        [Path(folder) for listed in teacher for folder in listed.split(",") if folder],
        texts[0] if len(texts) == 1 else Joined(texts),
        out=out,
        student=student,
        target=None if target is None else o.target(target, hold_out, nested),
        shots=shots,
        config=o.settings(config, set_),
        seed=seed,
        overwrite=overwrite,
        quiet=quiet,
    )
    show_run(done.folder, make_console())


def register(app: typer.Typer) -> None:
    app.command("distil")(distil)
