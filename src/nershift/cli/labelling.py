"""`curve` and `next`: how many labels are worth their price, and which sentences to label next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nershift.cli import options as o
from nershift.console import make_console, say, to_json
from nershift.data.formats import writable
from nershift.errors import ConfigError, OtherRunError

if TYPE_CHECKING:
    from nershift.data.spans import Sentence
    from nershift.labelling.choose import Choice

_SHOWN = 10


def curve(
    target: o.Target,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            file_okay=False,
            help="Folder for runs and curves; finished runs in it are not repeated.",
        ),
    ],
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="Methods to compare, a,b or repeated; default target_only."),
    ] = None,
    source: o.Source = None,
    raw: o.Raw = None,
    sizes: Annotated[
        str,
        typer.Option("--sizes", help="Labelled sentences, e.g. 25,50,100; default: all, a half, a quarter, …"),
    ] = "",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds 1 to N.")] = 3,
    reach: Annotated[
        list[float] | None,
        typer.Option("--reach", help="An F1 to reach, 0 to 1; may be repeated. Default: the next multiples of 0.05."),
    ] = None,
    config: o.ConfigFile = None,
    set_: o.Settings = None,
    hold_out: o.HoldOut = None,
    keep_models: Annotated[
        bool, typer.Option("--keep-models", help="Keep the weights of all runs, not only their scores.")
    ] = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Measure F1 against the number of labelled sentences, and how many of them a given F1 needs.

    Writes curve.html, curve.svg and curve.json to --out. Run the same command again to resume after an interruption,
    or to add methods, sizes or seeds.
    """
    from nershift.labelling.curve import measure
    from nershift.labelling.curve_report import as_text, save

    try:
        study = measure(
            [name for names in method or ["target_only"] for name in names.split(",") if name],
            o.target(target, hold_out),
            o.sources(source, hold_out),
            out=out,
            raw=o.raw_texts(raw),
            sizes=_numbers(sizes),
            seeds=range(1, seeds + 1),
            goals=reach or (),
            config=o.settings(config, set_),
            keep_models=keep_models,
            quiet=quiet,
        )
    except OtherRunError as error:
        fix = "choose another --out, or delete this one"  # --overwrite would delete single runs of a curve
        raise OtherRunError(error.found, place=str(out), expected=error.expected, fix=fix) from None
    files = save(study, out)
    if as_json:
        say(to_json(study.to_dict()))
        return
    console = make_console()
    console.print(as_text(study))
    console.print(f"\nwritten: {', '.join(map(str, files))}", highlight=False, soft_wrap=True)


def next_(
    model: Annotated[Path, typer.Option("--model", help="The folder of a finished run.")],
    file: Annotated[
        str,
        typer.Argument(help="Unlabelled text: one sentence per line (.raw), running text (.txt), or a corpus file."),
    ],
    out: Annotated[Path, typer.Option("--out", help="The file to write; its ending says the format.")],
    count: Annotated[int, typer.Option("--count", min=1, help="Sentences to choose.")] = 50,
    labelled: Annotated[
        list[str] | None,
        typer.Option("--labelled", help="What already has labels: files, folders or corpus names; may be repeated."),
    ] = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Also write the tagger's entities, for you to correct.")
    ] = False,
    diversity: Annotated[
        float | None,
        typer.Option(
            "--diversity",
            min=0.0,
            help="Weight of being unlike what is labelled or chosen; 0: only uncertainty counts.",
        ),
    ] = None,
    to: Annotated[str | None, typer.Option("--to", help=f"Format: {', '.join(writable())}.")] = None,
    device: Annotated[str, typer.Option("--device", help="cpu or cuda.")] = "cpu",
    verify: o.Verify = True,
    as_json: o.AsJson = False,
) -> None:
    """Choose the sentences to label next: those the tagger is least sure of, no two of them much alike."""
    from nershift.data.formats import write_sentences
    from nershift.labelling.choose import DIVERSITY, choose
    from nershift.tagger.tagger import Tagger

    known = [s for name in labelled or () for s in _sentences(name)]
    weight = DIVERSITY if diversity is None else diversity
    choice = choose(Tagger.load(model, device, verify), _pool(file), count, labelled=known, diversity=weight)
    chosen = [c.sentence if suggest else c.sentence.with_spans(()) for c in choice.chosen]
    write_sentences(out, chosen, to, reviewed=False)
    if as_json:
        say(to_json(_rows(choice)))
        return
    _show(choice, out)


def _rows(choice: Choice) -> dict[str, object]:
    chosen = [
        {
            "position": c.position,
            "place": c.sentence.place,
            "uncertainty": round(c.uncertainty, 6),
            "distance": round(c.distance, 6),
            "tokens": list(c.sentence.tokens),
            "entities": [[s.start, s.end, s.label, s.score] for s in c.sentence.spans],
        }
        for c in choice.chosen
    ]
    return {"read": choice.read, "left_out": dict(choice.left_out), "chosen": chosen}


def _show(choice: Choice, out: Path) -> None:
    from rich.table import Table

    from nershift.reports.text import coloured

    table = Table(box=None, header_style="bold")
    for column in ("uncertainty", "distance", "sentence, with the tagger's entities"):
        table.add_column(column, justify="left" if column.startswith("sentence") else "right")
    for c in choice.chosen[:_SHOWN]:
        table.add_row(f"{c.uncertainty:.3f}", f"{c.distance:.3f}", coloured(c.sentence))
    console = make_console()
    console.print(table)
    more = len(choice.chosen) - _SHOWN
    if more > 0:
        console.print(f"… and {more} more", highlight=False)
    omitted = ", ".join(f"{n:,} {reason}" for reason, n in sorted(choice.left_out.items()))
    summary = f"{len(choice.chosen):,} of {choice.read:,} sentences → {out}"
    console.print(summary + (f" (left out: {omitted})" if omitted else ""), highlight=False, soft_wrap=True)


def _pool(file: str) -> Sequence[Sentence]:
    """Tokenised lines are streamed; running text is read whole, since labels have to fit its characters."""
    from nershift.data.formats import detect_format, read_sentences
    from nershift.data.raw import RawText

    if Path(file).is_file() and detect_format(file) == "raw":
        text = RawText(file)
        if text.bad:
            make_console(stderr=True).print(text.summary(), style="yellow", markup=False)
        return text
    return read_sentences(file)


def _sentences(name: str) -> list[Sentence]:
    """All sentences of a file, or of all splits of a corpus."""
    from nershift.data.formats import read_sentences

    if Path(name).is_file():
        return read_sentences(name)
    return [s for split, mine in o.corpus(name, labelled=False).splits.items() if split != "raw" for s in mine]


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ConfigError(f"found '{text}'", place="--sizes", expected="whole numbers, e.g. 25,50,100") from None


def register(app: typer.Typer) -> None:
    app.command("curve")(curve)
    app.command("next")(next_)
