"""`export`: a tagger without its run, as a folder or as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nershift.cli import options as o
from nershift.console import make_console
from nershift.errors import CheckpointError, ConfigError

_SENTENCES = 200  # of the run's test split, to verify an export on


def export(
    model: Annotated[Path, typer.Option("--model", help="The folder of a finished run.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")],
    onnx: Annotated[bool, typer.Option("--onnx", help="Write ONNX graphs, which run without PyTorch.")] = False,
    int8: Annotated[bool, typer.Option("--int8", help="With --onnx: int8 matrix products for transformers.")] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            min=0.0,
            help="Largest allowed difference to PyTorch's scores (default 0.001); with --int8, the share of tags that "
            "may change (default 0.02).",
        ),
    ] = None,
    verify: o.Verify = True,
) -> None:
    """Write the tagger of a run without the rest of the run; with --onnx, one that needs no PyTorch.

    An ONNX tagger is verified against the original on the run's test sentences, or on built-in text; if they differ,
    nothing is written.
    """
    from nershift.tagger.tagger import Tagger

    console = make_console(stderr=True)
    if not onnx:
        if int8 or tolerance is not None:
            raise ConfigError("needs --onnx", place="--int8" if int8 else "--tolerance")
        if out.exists() and not (out.is_dir() and not any(out.iterdir())):
            raise CheckpointError("already exists", place=str(out), fix="choose another --out")
        Tagger.load(model, verify=verify).save(out)
        console.print(f"{model} → {out}", markup=False)
        return
    from nershift.evaluation.predictions import read_predictions
    from nershift.tagger.onnx.export import export_onnx

    predictions = model / "predictions.jsonl"
    sentences = read_predictions(predictions)[0][:_SENTENCES] if predictions.is_file() else None
    tagger = Tagger.load(model, verify=verify)
    check = export_onnx(tagger, out, int8=int8, tolerance=tolerance, sentences=sentences or None)
    console.print(
        f"{model} → {out}: on {check.sentences} sentences, scores differ from PyTorch's by at most "
        f"{check.largest_difference:.1e}, and {check.tags_changed:.2%} of {check.tokens} tags",
        markup=False,
    )


def register(app: typer.Typer) -> None:
    app.command("export")(export)
