"""`export`: a tagger to take along, as its own folder or as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nershift.errors import CheckpointError, ConfigError

_SENTENCES = 200  # of a run's own test split that an export is checked on


def export(
    model: Annotated[Path, typer.Option("--model", help="The folder of a finished run.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")],
    onnx: Annotated[bool, typer.Option("--onnx", help="Write ONNX graphs, which run without torch.")] = False,
    int8: Annotated[
        bool, typer.Option("--int8", help="With --onnx: matrix products of a transformer in int8.")
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            min=0.0,
            help="How far scores may lie from torch's (default 0.001); with --int8, the share of tags that may "
            "change (default 0.02).",
        ),
    ] = None,
) -> None:
    """Write the tagger of a run without the run: its own folder, or (--onnx) one that needs no torch.

    An ONNX tagger is compared with the original on the run's own test sentences, or on built-in text, and
    refused if it says something else.
    """
    from nershift.tagger.tagger import Tagger

    console = Console(stderr=True)
    if not onnx:
        if int8 or tolerance is not None:
            raise ConfigError("needs --onnx, too", place="--int8" if int8 else "--tolerance")
        if out.exists() and not (out.is_dir() and not any(out.iterdir())):
            raise CheckpointError("is there already", place=str(out), fix="choose another --out")
        Tagger.load(model).save(out)
        console.print(f"{model} → {out}", markup=False)
        return
    from nershift.evaluation.predictions import read_predictions
    from nershift.tagger.onnx.export import export_onnx

    told = model / "predictions.jsonl"
    sentences = read_predictions(told)[0][:_SENTENCES] if told.is_file() else None
    check = export_onnx(Tagger.load(model), out, int8=int8, tolerance=tolerance, sentences=sentences or None)
    console.print(
        f"{model} → {out}: on {check.sentences} sentences scores differ from torch's by at most "
        f"{check.largest_difference:.1e}, and {check.tags_changed:.2%} of {check.tokens} tags",
        markup=False,
    )


def register(app: typer.Typer) -> None:
    app.command("export")(export)
