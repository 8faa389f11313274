"""`fit`: the best tagger for what there is, in the time that there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from nershift.cli import options as o
from nershift.console import make_console, say, to_json
from nershift.data.corpus import Corpus
from nershift.errors import ConfigError

Minutes = Annotated[float, typer.Option("--minutes", help="How long it may take, within 15%.")]
EncoderName = Annotated[
    str,
    typer.Option(
        "--encoder",
        help="auto (one that is on this machine, if any), none, small, base, multilingual, a folder, or OWNER/NAME.",
    ),
]


def fit(
    target: o.Target,
    out: Annotated[str, typer.Option("--out", help="The folder to write; an interrupted fit in it goes on.")] = "",
    source: o.Source = None,
    raw: Annotated[
        list[str] | None,
        typer.Option("--raw", help="Unlabelled text of the target, one sentence per line; or NAME=FILE."),
    ] = None,
    encoder: EncoderName = "auto",
    language: Annotated[
        str,
        typer.Option("--language", help="Of the target, if not English (es, Spanish)."),
    ] = "",
    minutes: Minutes = 10.0,
    shots: o.Shots = None,
    ratio: o.Ratio = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of folds, weights and batches.")] = 1,
    same: o.Same = None,
    one_model: Annotated[bool, typer.Option("--one-model", help="Never several taggers that vote.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show what there is and what would be done, and stop there.")
    ] = False,
    download: Annotated[bool, typer.Option("--download", help="Fetch an encoder that is not on this machine.")] = False,
    workers: Annotated[int, typer.Option("--workers", min=0, help="Trainings at once; 0: one per core.")] = 0,
    ray: Annotated[
        str | None,
        typer.Option("--ray", help="Race on the Ray cluster at this address (auto: this machine's; local: a new one)."),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
    start: Annotated[
        Path | None, typer.Option("--from", help="The folder of a tagger to go on with, where that is best.")
    ] = None,
    hold_out: o.HoldOut = None,
    nested: o.Nested = False,
    overwrite: o.Overwrite = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Find the best tagger for --target: look, let recipes race on the labels, train the winner, say why.

    The test split is read once, at the end. A first tagger is in --out after about a minute; Ctrl-C keeps the best.
    """
    from nershift.auto.fit import fit as run
    from nershift.auto.fit import plan as make_plan

    if not (out or plan):
        raise ConfigError("no folder was given", place="--out", expected="--out DIR, or --plan to look only")
    corpus = o.target(target, hold_out, nested)
    if language:
        corpus = replace(corpus, language=language)
    sources = o.sources(source, hold_out, nested)
    texts = o.raw_texts([pair if "=" in pair else f"target={pair}" for pair in raw or ()])
    types = o.settings(None, None, same).get("head", {}).get("same", {})
    common: dict[str, Any] = {
        "raw": texts,
        "encoder": encoder,
        "minutes": minutes,
        "shots": shots,
        "ratio": ratio,
        "seed": seed,
        "same": types,
        "one_model": one_model,
        "download": download,
        "device": device,
        "workers": workers,
        "start": start,
    }
    console = make_console()
    if plan:
        made = make_plan(corpus, sources, **common)
        if as_json:
            say(to_json(made.to_dict(), indent=1))
            return
        for line in made.describe():
            say(line)
        _show_findings([corpus, *sources])
        return
    if not quiet:
        _show_findings([corpus, *sources])
    done = run(
        corpus,
        sources,
        out=out,
        ray=ray,
        overwrite=overwrite,
        tell=(lambda line: None) if quiet else say,
        places=_places(target, corpus, source, sources, raw),
        **common,
    )
    if as_json:
        say(to_json(done.facts, indent=1))
        return
    say("")
    for line in done.summary():
        say(line)
    console.print(f"\ntagger and report: {done.folder}", highlight=False)


def _show_findings(corpora: list[Corpus]) -> None:
    """What `nershift check` would say, a line each."""
    from nershift.data.checks import check_splits
    from nershift.data.problems import Problems

    for corpus in corpora:
        for finding in check_splits(corpus.splits, Problems(repair=True), 250).findings:
            what = f"{finding.count} × {finding.kind}, {finding.message}"
            say(f"check    {corpus.name}/{finding.where}: {what}")


def _places(
    target: str, corpus: Corpus, given: list[str] | None, sources: list[Corpus], raw: list[str] | None
) -> dict[str, str]:
    """Where each corpus came from, for the command that trains the winner alone."""
    names = [name for listed in given or () for name in listed.split(",") if name]
    places = {c.name: name for c, name in zip(sources, names, strict=True)} | {corpus.name: target}
    for pair in raw or ():
        name, equals, path = pair.partition("=")
        places[f"raw {name if equals else 'target'}"] = path if equals else pair
    return places


def register(app: typer.Typer) -> None:
    app.command("fit")(fit)
