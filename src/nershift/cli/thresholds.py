"""`thresholds`: the confidence from which a tagger's entities have a wanted precision."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from nershift.cli.options import Verify
from nershift.console import make_console, say, to_json
from nershift.errors import CheckpointError, ConfigError


def thresholds(
    model: Annotated[Path, typer.Option("--model", help="The folder of a finished run.")],
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Labelled sentences not used in training; default: the run's dev split."),
    ] = None,
    precision: Annotated[
        list[float] | None, typer.Option("--precision", help="Wanted precision, 0 to 1; may be repeated.")
    ] = None,
    verify: Verify = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which --min-confidence gives which precision.

    Each threshold holds with 95% confidence, which accounts for choosing among thresholds. Without --file, shows what
    the run measured on its dev split.
    """
    rows = _stored(model, precision or (), verify) if file is None else _measured(model, file, precision or (), verify)
    if as_json:
        say(to_json(rows))
        return
    table = Table(box=None, header_style="bold")
    for column in (
        "wanted precision",
        "--min-confidence",
        "measured",
        "lower bound",
        "entities kept",
    ):
        table.add_column(column, justify="right")
    for row in rows:
        if row["confidence"] is None:
            table.add_row(f"{100 * row['precision']:.2f}", "none", "", "", "")
            continue
        shares = [f"{100 * row[k]:.2f}" for k in ("found", "low", "kept")]
        table.add_row(f"{100 * row['precision']:.2f}", f"{row['confidence']:.4f}", *shares)
    make_console().print(table)


def _stored(model: Path, precisions: Sequence[float], verify: bool) -> list[dict[str, Any]]:
    from nershift.model_store import load_model

    _, meta = load_model(model, verify)
    rows: list[dict[str, Any]] = meta.get("calibration", {}).get("thresholds", [])
    if not rows:
        raise CheckpointError(
            "this tagger was not calibrated",
            place=str(model),
            expected="a run whose target has a dev split",
            fix="give labelled sentences: --file FILE",
        )
    known = {row["precision"] for row in rows}
    if unknown := [p for p in precisions if p not in known]:
        raise ConfigError(
            f"no threshold is stored for {unknown[0]:g}",
            place="--precision",
            expected=" | ".join(f"{p:g}" for p in sorted(known)),
            fix="give labelled sentences to find it on: --file FILE",
        )
    return [row for row in rows if not precisions or row["precision"] in precisions]


def _measured(model: Path, file: Path, precisions: Sequence[float], verify: bool) -> list[dict[str, Any]]:
    from nershift.data.formats import read_sentences
    from nershift.evaluation.calibration import PRECISIONS, confidences_and_truth
    from nershift.evaluation.calibration import thresholds as find
    from nershift.tagger.tagger import Tagger

    if wrong := [p for p in precisions if not 0 < p < 1]:
        raise ConfigError(f"found {wrong[0]:g}", place="--precision", expected="more than 0 and less than 1")
    gold = read_sentences(file, labelled=True)
    confidences, right = confidences_and_truth(gold, Tagger.load(model, verify=verify).tag_sentences(gold))
    return [row.to_dict() for row in find(confidences, right, precisions or PRECISIONS)]


def register(app: typer.Typer) -> None:
    app.command("thresholds")(thresholds)
