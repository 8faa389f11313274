"""The verbs ``check`` and ``convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from nershift.cli.options import Nested
from nershift.console import make_console, say, to_json
from nershift.data.checks import CheckReport
from nershift.data.checks import check as run_check
from nershift.data.formats import (
    FORMATS,
    read_corpus,
    read_sentences,
    writable,
    write_corpus,
    write_sentences,
)
from nershift.data.formats.base import is_data_file
from nershift.data.labels import SCHEMES, Scheme
from nershift.data.problems import Problems
from nershift.data.spans import Sentence
from nershift.errors import ConfigError, nearest

_EXAMPLES = 5  # places shown of each finding
_FORMAT_HELP = f"one of: {', '.join(FORMATS)}"
_WRITE_HELP = f"one of: {', '.join(writable())}"


def check(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="files, folders of splits, corpus names")],
    strict: Annotated[bool, typer.Option("--strict", help="exit with status 1 when anything is found")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    max_length: Annotated[int, typer.Option(help="report sentences with more tokens", min=1)] = 250,
    source_format: Annotated[Optional[str], typer.Option("--from", help=_FORMAT_HELP)] = None,  # noqa: UP045
    nested: Nested = False,
) -> None:
    """Report what a corpus contains and what is wrong with it, before any training."""
    report = run_check(paths, max_length, format=source_format, nested=nested or None)
    if as_json:
        say(to_json(report.to_dict(), indent=2))
    else:
        make_console().print(render(report))
    if strict and not report.ok:
        raise typer.Exit(1)


def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="a file, a folder of splits or a corpus name")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="a file, or a folder when IN has splits")],
    source_format: Annotated[Optional[str], typer.Option("--from", help=_FORMAT_HELP)] = None,  # noqa: UP045
    target_format: Annotated[Optional[str], typer.Option("--to", help=_WRITE_HELP)] = None,  # noqa: UP045
    scheme: Annotated[Optional[str], typer.Option(help=f"tags to write: {', '.join(SCHEMES)}")] = None,  # noqa: UP045
    repair: Annotated[bool, typer.Option("--repair", help="repair problems and go on")] = False,
    nested: Nested = False,
) -> None:
    """Convert a corpus to another format. The first problem stops it, unless --repair is given; repairs are listed."""
    problems = Problems(repair=repair)
    tags = _scheme(scheme)
    if Path(source).is_file():
        sentences = read_sentences(source, source_format, problems, nested=nested or None)
        kept = [s for s in sentences if s.tokens] if repair else sentences
        write_sentences(target, kept, target_format, scheme=tags)
        written = [target]
    else:
        corpus = read_corpus(source, format=source_format, problems=problems, nested=nested or None)
        sentences = [s for split in corpus.splits.values() for s in split]
        kept = [s for s in sentences if s.tokens] if repair else sentences
        if is_data_file(target) and len(corpus.splits) == 1:
            write_sentences(target, kept, target_format, scheme=tags)
            written = [target]
        elif is_data_file(target):
            raise ConfigError(
                f"{source} has the splits {', '.join(corpus.splits)}, which do not go into one file",
                place=str(target),
                expected="a folder",
                fix="name a folder, and the format with --to",
            )
        else:
            if repair:
                parts = {k: [s for s in v if s.tokens] for k, v in corpus.splits.items()}
                corpus = corpus.with_splits(**parts)
            written = write_corpus(
                target, corpus, target_format or ("jsonl" if corpus.nested else "conll"), scheme=tags
            )
    _say(problems, sentences, kept, written)


def _say(problems: Problems, sentences: list[Sentence], kept: list[Sentence], written: list[Path]) -> None:
    for problem in problems:
        say(f"{problem.place}: {problem.kind}: {problem.found} → {problem.repair}", err=True)
    for sentence in sentences:
        if len(kept) < len(sentences) and not sentence.tokens:
            say(f"{sentence.place}: empty sentence → left out", err=True)
    mentions = sum(len(s.spans) for s in kept)
    say(f"{len(kept):,} sentences with {mentions:,} mentions → {', '.join(map(str, written))}")


def _scheme(name: str | None) -> Scheme | None:
    if name is None:
        return None
    for known in SCHEMES:
        if known == name.upper():
            return known
    raise ConfigError(f"unknown scheme '{name}'{nearest(name, SCHEMES)}", expected=", ".join(SCHEMES))


def render(report: CheckReport) -> RenderableType:
    """Tables for a terminal, with a few example places for each finding."""
    from nershift.reports.content import ReportTable
    from nershift.reports.text import rich_table

    splits = report.splits
    sizes = [
        (name, *(f"{n:,}" for n in (c.sentences, c.tokens, sum(c.mentions.values()), c.longest)))
        for name, c in splits.items()
    ]
    named = [name for name, c in splits.items() if c.mentions]
    types = sorted({t for c in splits.values() for t in c.mentions})
    mentions = [(t, *(f"{splits[name].mentions.get(t, 0):,}" for name in named)) for t in types]
    headers = ("split", "sentences", "tokens", "mentions", "longest")
    return Group(
        rich_table(ReportTable("splits", "Splits", headers, tuple(sizes))),
        rich_table(ReportTable("types", "Mentions by type", ("type", *named), tuple(mentions))),
        _entry_lines(report),
    )


def _entry_lines(report: CheckReport) -> Text:
    if not report.entries:
        return Text("No findings.", style="green")
    text = Text(overflow="fold")
    for e in (*report.findings, *report.notes):
        text.append(f"{e.level}: ", style="bold red" if e.level == "finding" else "dim")
        text.append(f"{e.kind}", style="bold").append(f" in {e.where}, {e.count:,} ×\n  {e.message}\n")
        if e.places:
            text.append(f"  {_places(e.places)}\n", style="cyan")
        if e.fix:
            text.append(f"  what to do: {e.fix}\n")
    return text


def _places(places: tuple[str, ...]) -> str:
    """``a.conll:3, :9, :12 … and 4 more``: the file is named again only when it changes."""
    shown: list[str] = []
    before = ""
    for place in places[:_EXAMPLES]:
        file, _, line = place.rpartition(":")
        shown.append(f":{line}" if file == before else place)
        before = file
    more = f" … and {len(places) - _EXAMPLES:,} more" if len(places) > _EXAMPLES else ""
    return ", ".join(shown) + more


def register(app: typer.Typer) -> None:
    """Add the verbs to an application."""
    app.command()(check)
    app.command()(convert)
