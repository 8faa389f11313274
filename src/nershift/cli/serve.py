"""`serve`: a tagger behind HTTP, with a page to correct and adapt it."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from nershift.cli import options as o
from nershift.cli.serve_demo import add_samples, demo_run
from nershift.console import make_console
from nershift.errors import ConfigError, MissingExtraError

_SEEN = "--token can be seen by everybody on this machine (ps): use --token-file or NERSHIFT_TOKEN"


def serve(
    model: Annotated[
        Path | None,
        typer.Option("--model", help="The folder of a finished run, or one that `nershift pretrain` wrote."),
    ] = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Serve a small built-in tagger with sample texts; it is trained on first use."),
    ] = False,
    store: Annotated[
        Path | None,
        typer.Option("--store", help="Folder for versions (default: MODEL.versions beside the model)."),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0: any free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            hidden=True,  # everybody on the machine sees what stands on a command line
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            help="Require the token in this file, or in the variable NERSHIFT_TOKEN. "
            "On addresses other than loopback, one is generated if none is given.",
        ),
    ] = None,
    queue: Annotated[int, typer.Option("--queue", min=1, help="Requests that may wait; further ones get 429.")] = 256,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="Time limit of an answer, in seconds; later ones become 503.")
    ] = 30.0,
    body_bytes: Annotated[
        int, typer.Option("--body-bytes", min=1000, help="Largest request body, in bytes; larger ones get 413.")
    ] = 2_000_000,
    tokens: Annotated[
        int, typer.Option("--tokens", min=100, help="Most tokens of one request to tag; larger ones get 413.")
    ] = 50_000,
    threads: Annotated[
        int, typer.Option("--threads", min=0, help="Threads per batch; 0: one, or all for a transformer.")
    ] = 0,
    verify: o.Verify = True,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not log requests.")] = False,
) -> None:
    """Serve a tagger over HTTP; the page at / colours entities and learns from corrections."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(str(error.name or "fastapi"), "serve", "serving a tagger") from None
    from nershift.server.limits import Limits
    from nershift.server.run import listen, run
    from nershift.server.security import Guard, is_loopback, new_token
    from nershift.server.service import Service

    if (model is None) != demo:
        found = "both are given" if demo else "neither is given"
        raise ConfigError(found, place="--model, --demo", expected="one of them", fix="try --demo, or --model RUN")
    if token is not None:
        make_console(stderr=True).print(_SEEN, style="yellow", markup=False)
    # Read here, since typer 0.26.0 ignores variables; taken away, since the processes that adapt need not know it.
    variable = os.environ.pop("NERSHIFT_TOKEN", "") or None
    token = read_token(token_file) if token_file is not None else token or variable
    if token is not None and len(token) < 8:
        raise ConfigError("the token is too short", place="--token-file", expected="8 characters or more")
    generated = new_token() if token is None and not is_loopback(host) else ""
    listening = listen(host, port)
    limits = Limits(queue=queue, seconds=seconds, body_bytes=body_bytes, tokens=tokens)
    service = Service(model or demo_run(), store, limits, threads, verify)
    if demo:
        add_samples(service)
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else host
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}/"
    make_console(stderr=True).print(
        f"{address}{f'#token={generated}' if generated else ''}", style="bold", markup=False, soft_wrap=True
    )
    run(service, Guard(token or generated or None), listening, quiet)


def read_token(path: Path) -> str:
    """The first line of a file."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        found = f"cannot be read ({getattr(error, 'strerror', None) or error})"
        raise ConfigError(found, place=str(path), expected="a file with the token", fix="see --token-file") from None
    return lines[0].strip()


def register(app: typer.Typer) -> None:
    app.command("serve")(serve)
