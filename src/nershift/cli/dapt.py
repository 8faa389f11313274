"""`dapt`: train an encoder further on raw text of a domain."""

from __future__ import annotations

from typing import Annotated

import typer

from nershift.cli import options as o
from nershift.console import make_console

RawFiles = Annotated[
    list[str], typer.Option("--raw", help="A file of raw text, one sentence per line; may be repeated.")
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", help="Corpora whose dev and test sentences are removed from the text."),
]


def dapt(
    encoder: Annotated[str, typer.Option("--encoder", help="A folder or a hub name.")],
    raw: RawFiles,
    out: o.Out,
    exclude: Exclude = None,
    seed: o.Seed = None,
    config: o.ConfigFile = None,
    set_: o.Settings = None,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
) -> None:
    """Pre-train --encoder on raw text of a domain; the folder serves as encoder.transformer.name."""
    from nershift.dapt.pretraining import dapt as run

    metrics = run(
        encoder,
        [o.raw_texts([f"text={path}"])["text"] for paths in raw for path in paths.split(",") if path],
        out=out,
        exclude=o.corpora(exclude, labelled=False),
        config=o.settings(config, set_),
        seed=seed,
        overwrite=overwrite,
        quiet=quiet,
    )
    make_console().print(
        f"held-out loss {metrics['loss_before']:.4f} → {metrics['loss']:.4f} after {metrics['best_step']} steps "
        f"({metrics['passes']:.1f} passes run); use it: --set encoder.kind=transformer "
        f"--set encoder.transformer.name={out}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def register(app: typer.Typer) -> None:
    app.command("dapt")(dapt)
