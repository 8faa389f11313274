"""`train`, `transfer`, `pretrain`, `adapt`: the verbs that train taggers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nershift.cli import options as o
from nershift.console import make_console, say
from nershift.errors import CheckpointError
from nershift.storage import write_text

_COMMAND = "command.json"  # of a run made here: where its data came from


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
    hold_out: o.HoldOut = None,
    nested: o.Nested = False,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
) -> None:
    """Train a tagger for --target and score it on the test split."""
    from nershift.run import transfer as run

    done = run(
        method,
        o.target(target, hold_out, nested),
        o.sources(source, hold_out, nested),
        out=out,
        raw=o.raw_texts(raw),
        shots=shots,
        ratio=ratio,
        seed=seed,
        config=o.settings(config, set_, same),
        overwrite=overwrite,
        quiet=quiet,
    )
    _remember(done.folder, target, source, raw, hold_out, nested)
    _show(done.folder)


def pretrain(
    method: o.MethodName,
    source: o.Source,
    out: o.Out,
    raw: o.Raw = None,
    seed: o.Seed = None,
    config: o.ConfigFile = None,
    set_: o.Settings = None,
    hold_out: o.HoldOut = None,
    nested: o.Nested = False,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
) -> None:
    """Train on --source alone; the folder can be adapted to any target."""
    from nershift.run import pretrain as run

    folder = run(
        method,
        o.sources(source, hold_out, nested),
        out=out,
        raw=o.raw_texts(raw),
        seed=seed,
        config=o.settings(config, set_),
        overwrite=overwrite,
        quiet=quiet,
    )
    say(f"pretrained model in {folder}; adapt it: nershift adapt --from {folder} --target CORPUS --out DIR")


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
    hold_out: o.HoldOut = None,
    nested: o.Nested = False,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
) -> None:
    """Adapt a pretrained folder to the words, types and labels of --target."""
    from nershift.run import adapt as run

    done = run(
        start.resolve(),
        o.target(target, hold_out, nested),
        out=out,
        shots=shots,
        ratio=ratio,
        seed=seed,
        config=o.settings(config, set_, same),
        overwrite=overwrite,
        quiet=quiet,
    )
    _remember(done.folder, target, None, None, hold_out, nested)
    _show(done.folder)


def resume(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    updates: Annotated[int, typer.Option("--updates", min=1, help="How many more updates to train.")],
    quiet: o.Quiet = False,
) -> None:
    """Train a finished run for longer, from where it ended, and score it again.

    The corpora are read from where they were when the run was made.
    """
    from nershift.resume_run import resume as go_on

    asked = _recall(run)
    done = go_on(
        run,
        o.target(asked["target"], asked["hold_out"], asked["nested"]),
        o.sources(asked["source"], asked["hold_out"], asked["nested"]),
        updates=updates,
        raw=o.raw_texts(asked["raw"]),
        quiet=quiet,
    )
    _show(done.folder)


def _remember(
    folder: Path,
    target: str,
    source: Sequence[str] | None,
    raw: Sequence[str] | None,
    hold_out: float | None,
    nested: bool,
) -> None:
    """Write down where the data came from: what `resume` reads again."""
    sources = [_absolute(name) for listed in source or () for name in listed.split(",") if name]
    texts = ["=".join((name, _absolute(path))) for name, _, path in (pair.partition("=") for pair in raw or ())]
    asked = {"target": _absolute(target), "source": sources, "raw": texts, "hold_out": hold_out, "nested": nested}
    write_text(folder / _COMMAND, json.dumps(asked, indent=1, ensure_ascii=False))


def _recall(folder: Path) -> dict[str, Any]:
    from nershift.run_folder import Run

    Run.open(folder)  # says what is wrong with a folder that is no finished run
    try:
        asked = json.loads((folder / _COMMAND).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise CheckpointError(
            "does not say where its data came from",
            place=str(folder),
            expected=f"a run of `nershift train`, `transfer` or `adapt`, with a file {_COMMAND}",
            fix="nershift.resume(folder, target, sources, updates=…) in Python, with the corpora it was trained on",
        ) from None
    return dict(asked)


def _absolute(name: str) -> str:
    """A path as seen from everywhere; the name of a corpus in the catalog stays."""
    return str(Path(name).resolve()) if Path(name).exists() else name


def _show(folder: Path) -> None:
    from nershift.reports.run import show_run

    show_run(folder, make_console())


def register(app: typer.Typer) -> None:
    app.command("train")(train)
    app.command("transfer", help="The same as train; with --source, the tagger learns from other domains too.")(train)
    app.command("resume")(resume)
    app.command("pretrain")(pretrain)
    app.command("adapt")(adapt)
