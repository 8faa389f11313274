"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nershift.config import merge, parse_settings, read_yaml
from nershift.console import make_console
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.errors import ConfigError, SetupError

Source = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        help="Labelled corpora of other domains: folders, files or catalog names; several may follow.",
    ),
]
Target = Annotated[
    str,
    typer.Option("--target", help="The corpus to tag: a folder with train/dev/test, a file, or a catalog name."),
]
Raw = Annotated[
    list[str] | None,
    typer.Option("--raw", help="Unlabelled text: NAME=FILE, one sentence per line; may be repeated."),
]
MethodName = Annotated[str, typer.Option("--method", help="See `nershift methods`.")]
Shots = Annotated[int | None, typer.Option("--shots", min=0, help="Use only this many labelled target sentences.")]
Ratio = Annotated[float | None, typer.Option("--ratio", help="Use only this share of the labelled target sentences.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of subset, weights and batches.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="A YAML file of settings.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="One setting, e.g. train.epochs=20; may be repeated.")
]
Same = Annotated[
    list[str] | None,
    typer.Option("--same", help="TARGET_TYPE=SOURCE_TYPE: types that mean the same. Several by commas or repeated."),
]
Out = Annotated[
    Path,
    typer.Option("--out", file_okay=False, help="The folder to write; an interrupted run in it is resumed."),
]
HoldOut = Annotated[
    float | None,
    typer.Option(
        "--hold-out",
        min=0.0,
        max=0.9,
        help="Share of train to use as dev where a corpus has no dev split. "
        "Default: a tenth, but nothing of a target with few labels.",
    ),
]
Nested = Annotated[
    bool,
    typer.Option("--nested", help="Entities may overlap; a corpus folder may also say so itself (corpus.yaml)."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Delete what an earlier run left in --out.")]
Verify = Annotated[
    bool, typer.Option("--verify/--no-verify", help="Compare the model's files with its manifest before they are used.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not show progress.")]
_TENTH = 0.1
ENOUGH_FOR_DEV = 500  # sentences from which a tenth of a target's labels selects better than the last weights do
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def settings(config: Path | None, pairs: Sequence[str] | None, same: Sequence[str] | None = None) -> dict[str, Any]:
    """What --config, --set and --same say, later ones over earlier ones."""
    values = merge(read_yaml(config) if config else {}, parse_settings(pairs or ()))
    types = {}
    for pair in (p for listed in same or () for p in listed.split(",")):
        target, equals, source = pair.partition("=")
        if not (target and equals and source):
            raise ConfigError(f"found '{pair}'", place="--same", expected="TARGET_TYPE=SOURCE_TYPE, e.g. person=PER")
        types[target] = source
    return merge(values, {"head": {"same": types}}) if types else values


def corpora(
    names: Sequence[str] | None, hold_out: float | None = 0.0, labelled: bool = True, nested: bool = False
) -> list[Corpus]:
    return [corpus(name, hold_out, labelled, nested) for listed in names or () for name in listed.split(",") if name]


def sources(names: Sequence[str] | None, hold_out: float | None, nested: bool = False) -> list[Corpus]:
    """Corpora that others learn from: their dev splits tell when they are learned."""
    return corpora(names, hold_out, nested=nested)


def target(name: str, hold_out: float | None, nested: bool = False) -> Corpus:
    """The corpus to tag. Few labels are worth more in training than in a dev split."""
    read = corpus(name, nested=nested)
    many = len(read.splits.get("train", ())) >= ENOUGH_FOR_DEV
    share = (None if many else 0.0) if hold_out is None else hold_out
    return _held_out(read, share)


def corpus(name: str, hold_out: float | None = 0.0, labelled: bool = True, nested: bool = False) -> Corpus:
    from nershift.data.formats import read_corpus

    return _held_out(read_corpus(name, labelled=labelled, nested=nested or None), hold_out)


def _held_out(read: Corpus, share: float | None) -> Corpus:
    """The corpus with a dev split; None: a tenth of train, but nothing where that is a single sentence."""
    if share is None:
        share = _TENTH if len(read.splits.get("train", ())) > 1 else 0.0
    return read.hold_out(share) if share and "dev" not in read.splits and "train" in read.splits else read


def raw_texts(pairs: Sequence[str] | None) -> dict[str, Sequence[Sentence]]:
    """Text by domain; plain text is streamed from disk. Lines that cannot be used are reported."""
    from nershift.data.formats import detect_format, read_sentences
    from nershift.data.raw import RawText

    out: dict[str, Sequence[Sentence]] = {}
    for pair in pairs or ():
        name, equals, path = pair.partition("=")
        if not equals:
            raise SetupError(f"found '{pair}'", place="--raw", expected="NAME=FILE, e.g. --raw target=notes.txt")
        format = detect_format(path) if Path(path).exists() else "raw"
        if format not in ("raw", "text"):
            out[name] = read_sentences(path)
            continue
        text = RawText(path, "raw" if format == "raw" else "text")
        if text.bad:
            make_console(stderr=True).print(f"--raw {name}={text.summary()}", style="yellow", markup=False)
        out[name] = text
    return out
