"""`train`, `transfer`, `pretrain`, `adapt`: the verbs that train taggers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nershift.cli import options as o


def train(
    target: o.Target,
    out: o.Out,
    method: o.MethodName = "target_only",
    source: o.Source = None,
    raw: o.Raw = None,
    shots: o.Shots = None,
    ratio: o.Ratio = None,
    seed: o.Seed = None,
    config: o.ConfigFile = None,
    set_: o.Settings = None,
    same: o.Same = None,
    hold_out: o.HoldOut = 0.1,
    nested: o.Nested = False,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
) -> None:
    """Train a tagger for --target and score it on the test split."""
    from nershift.run import transfer as run

    done = run(
        method,
        o.corpus(target, hold_out, nested=nested),
        o.corpora(source, hold_out, nested=nested),
        out=out,
        raw=o.raw_texts(raw),
        shots=shots,
        ratio=ratio,
        seed=seed,
        config=o.settings(config, set_, same),
        overwrite=overwrite,
        quiet=quiet,
    )
    _show(done.folder)


def pretrain(
    method: o.MethodName,
    source: o.Source,
    out: o.Out,
    raw: o.Raw = None,
    seed: o.Seed = None,
    config: o.ConfigFile = None,
    set_: o.Settings = None,
    hold_out: o.HoldOut = 0.1,
    nested: o.Nested = False,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
) -> None:
    """Train on --source alone; the folder can be adapted to any target."""
    from nershift.run import pretrain as run

    folder = run(
        method,
        o.corpora(source, hold_out, nested=nested),
        out=out,
        raw=o.raw_texts(raw),
        seed=seed,
        config=o.settings(config, set_),
        overwrite=overwrite,
        quiet=quiet,
    )
    Console().print(f"pretrained model in {folder}; adapt it: nershift adapt --from {folder} --target CORPUS --out DIR")


def adapt(
    start: Annotated[Path, typer.Option("--from", help="A folder written by `nershift pretrain`.")],
    target: o.Target,
    out: o.Out,
    shots: o.Shots = None,
    ratio: o.Ratio = None,
    seed: o.Seed = None,
    config: o.ConfigFile = None,
    set_: o.Settings = None,
    same: o.Same = None,
    hold_out: o.HoldOut = 0.1,
    nested: o.Nested = False,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
) -> None:
    """Adapt a pretrained folder to the words, types and labels of --target."""
    from nershift.run import adapt as run

    done = run(
        start,
        o.corpus(target, hold_out, nested=nested),
        out=out,
        shots=shots,
        ratio=ratio,
        seed=seed,
        config=o.settings(config, set_, same),
        overwrite=overwrite,
        quiet=quiet,
    )
    _show(done.folder)


def _show(folder: Path) -> None:
    from nershift.reports.run import show_run

    show_run(folder, Console())


def register(app: typer.Typer) -> None:
    app.command("train")(train)
    app.command("transfer", help="The same as train; with --source, the tagger learns from other domains too.")(train)
    app.command("pretrain")(pretrain)
    app.command("adapt")(adapt)
