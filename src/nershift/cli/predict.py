"""`predict`: tag text with a finished run, or with several that vote."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from nershift.cli import options as o
from nershift.console import say, to_json
from nershift.errors import ConfigError


def _show_schema(asked: bool) -> None:
    if asked:
        from nershift.tagger.entities import SCHEMA

        say(SCHEMA.read_text(encoding="utf-8").rstrip())
        raise typer.Exit


def predict(
    model: Annotated[
        list[Path],
        typer.Option("--model", help="The folder of a finished run; given several times, the runs vote."),
    ],
    file: Annotated[
        str,
        typer.Argument(
            help="A text file with one text per line, a corpus file, or - for standard input; with --ray, a folder."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write a corpus file (its ending says the format) instead of JSON lines."),
    ] = None,
    min_confidence: Annotated[
        float, typer.Option("--min-confidence", help="Omit entities below this probability, 0 to 1.")
    ] = 0.0,
    adapt: Annotated[
        bool,
        typer.Option("--adapt", help="Adapt to the nearest labelled sentences of each sentence (metacross)."),
    ] = False,
    why: Annotated[
        bool, typer.Option("--why", help="With --adapt: also show the labelled sentences it adapted to.")
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            help="Tag a folder of JSONL or Parquet files into the folder --out on the Ray cluster at this address "
            "(auto: of this machine; local: a new one).",
        ),
    ] = None,
    verify: o.Verify = True,
    schema: Annotated[
        bool,
        typer.Option("--schema", callback=_show_schema, is_eager=True, help="Show the JSON Schema of an entity."),
    ] = False,
) -> None:
    """Tag text: JSON lines {text, entities} on standard output; --schema shows what an entity is.

    With --why each line also has neighbours: for each sentence a list of {text, entities, similarity}.
    """
    from nershift.tagger.ensemble import Ensemble
    from nershift.tagger.predict_file import predict_corpus, predict_file

    if not 0 <= min_confidence <= 1:
        raise ConfigError(f"found {min_confidence:g}", place="--min-confidence", expected="0 to 1")
    if why and ray is None and (not adapt or out is not None):
        raise ConfigError(
            "a corpus file has no place for it" if adapt else "needs --adapt",
            place="--why",
            fix="omit --out" if adapt else "add --adapt, with a run of metacross",
        )
    if len(model) > 1 and (adapt or ray is not None):
        raise ConfigError(
            f"{len(model)} runs were given to vote", place="--model", expected="one run with --adapt or --ray"
        )
    if ray is not None:
        _predict_on_ray(model[0], file, out, ray, min_confidence, adapt, why, verify)
        return
    tagger = Ensemble.load(model, verify=verify)
    if out is not None:
        tagged = predict_corpus(tagger, file, out, min_confidence=min_confidence, adapt=adapt)
        entities = sum(len(s.spans) for s in tagged)
        say(f"{len(tagged)} sentences, {entities} entities → {out}", err=True)
        return
    for result in predict_file(tagger, file, min_confidence=min_confidence, adapt=adapt, why=why):
        say(to_json(result))
        sys.stdout.flush()


def _predict_on_ray(
    model: Path, folder: str, out: Path | None, address: str, least: float, adapt: bool, why: bool, verify: bool
) -> None:
    from nershift.tagger.ray_predict import predict_folder

    if out is None or why:
        raise ConfigError(
            "--why does not work on folders" if why else "no folder to write to was given",
            place="--ray",
            expected="nershift predict --ray ADDRESS --model DIR FOLDER --out FOLDER",
        )
    given: dict[str, Any] = {"address": address, "min_confidence": least, "adapt": adapt, "verify": verify}
    records, entities = predict_folder(model, Path(folder), out, **given)
    say(f"{records} records, {entities} entities → {out}", err=True)


def register(app: typer.Typer) -> None:
    app.command("predict")(predict)
