"""The command line: thin verbs over the public API. Errors become messages, never tracebacks."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import typer
from rich.logging import RichHandler
from rich.markup import escape

from nershift import __version__
from nershift.cli import (
    builtin,
    dapt,
    data,
    distil,
    export,
    fit,
    labelling,
    methods,
    predict,
    score,
    serve,
    states,
    thresholds,
    train,
)
from nershift.console import has_control, make_console, say, show_traceback
from nershift.errors import ConfigError, NershiftError

app = typer.Typer(
    help="Move a named entity recogniser to a new domain or language with few labels or none.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _show_version(asked: bool) -> None:
    if asked:
        say(f"nershift {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    pass


for module in (
    data,
    builtin,
    fit,
    train,
    distil,
    dapt,
    score,
    states,
    predict,
    methods,
    thresholds,
    labelling,
    serve,
    export,
):
    module.register(app)


def spread(arguments: Sequence[str], names: Sequence[str] = ("--source", "--raw", "--teacher")) -> list[str]:
    """``--source A B`` as ``--source A --source B``: an option of several values takes all up to the next option.

    Example:
        >>> spread(["train", "--source", "a", "b", "--out", "d"])
        ['train', '--source', 'a', '--source', 'b', '--out', 'd']
    """
    out: list[str] = []
    open_option, values = "", 0
    for word in arguments:
        if word.startswith("-"):
            open_option, values = (word if word in names else ""), 0
        elif open_option:
            values += 1
            if values > 1:
                out.append(open_option)
        out.append(word)
    return out


def help_asked(arguments: list[str]) -> list[str]:
    """``help train`` as ``train --help``, and ``help`` as ``--help``.

    Example:
        >>> help_asked(["help", "train"])
        ['train', '--help']
    """
    return [*arguments[1:2], "--help"] if arguments[:1] == ["help"] else arguments


def _harmless(argument: str) -> str:
    """The argument, if it may be shown as it is: what typer says of wrong usage repeats it."""
    if has_control(argument):
        raise ConfigError("an argument has a control character", place=argument, fix="rename the file or folder")
    return argument


def main(commands: typer.Typer = app) -> None:
    """Exit with 0 on success, 1 for what a message explains, 2 for wrong usage, 130 when interrupted."""
    console = make_console(stderr=True)
    sys.excepthook = show_traceback
    logging.basicConfig(
        level=logging.INFO,
        format="%(message)s",
        handlers=[RichHandler(console=console, show_path=False, show_time=False, show_level=False)],
    )
    for name in ("transformers", "datasets", "accelerate", "torch", "matplotlib"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        commands(args=spread(help_asked([_harmless(word) for word in sys.argv[1:]])))
    except NershiftError as error:
        console.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        console.print("[bold red]interrupted[/]")
        sys.exit(130)
    except OSError as error:  # a full disk, a folder that may not be written
        console.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)
