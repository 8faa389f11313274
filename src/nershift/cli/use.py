"""`predict` and `methods`: verbs for people who have, or look for, a tagger."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from nershift.errors import ConfigError, DataError

if TYPE_CHECKING:
    from nershift.data.spans import Sentence
    from nershift.tagger.entities import Entity

_CHUNK = 256  # texts tagged at once


def predict(
    model: Annotated[
        list[Path],
        typer.Option("--model", help="The folder of a finished run; given several times, the runs vote."),
    ],
    file: Annotated[
        str,
        typer.Argument(
            help="A text file with one text a line, a corpus file, - for standard input; with --ray, a folder."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write a corpus file (its ending says the format) instead of JSON lines."),
    ] = None,
    min_confidence: Annotated[
        float, typer.Option("--min-confidence", help="Leave out entities below this probability, 0 to 1.")
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
) -> None:
    """Tag text: JSON lines {text, entities: [{start, end, label, text, score}]} on standard output.

    With --why each line also has neighbours: for each sentence a list of {text, entities, similarity}.
    """
    from nershift.data.formats import detect_format, read_sentences, write_sentences
    from nershift.tagger.ensemble import Ensemble

    if not 0 <= min_confidence <= 1:
        raise ConfigError(f"found {min_confidence:g}", place="--min-confidence", expected="0 to 1")
    if why and ray is None and (not adapt or out is not None):
        raise ConfigError(
            "a corpus file has no place for it" if adapt else "needs --adapt, too",
            place="--why",
            fix="leave --out away" if adapt else "add --adapt, with a run of metacross",
        )
    if len(model) > 1 and (adapt or ray is not None):
        raise ConfigError(
            f"{len(model)} runs were given to vote", place="--model", expected="one run with --adapt or --ray"
        )
    if ray is not None:
        _predict_on_ray(model[0], file, out, ray, min_confidence, adapt, why)
        return
    ensemble = Ensemble.load(model)
    first = ensemble.taggers[0]
    tag_sentences: Callable[[Sequence[Sentence]], list[Sentence]] = ensemble.tag_sentences
    tag_texts: Callable[[Sequence[str]], list[list[Entity]]] = ensemble.tag_texts
    if adapt:
        tag_sentences, tag_texts = first.adapt_sentences, partial(first.tag_texts, adapt=True)
    named = file != "-" and (Path(file).is_dir() or Path(file).suffix not in (".txt", ""))
    is_corpus = named and detect_format(file) is not None
    if out is not None:
        if file == "-":
            raise DataError("--out needs a file to read", place="-", fix="give a path in place of -")
        tagged = [
            s.with_spans(x for x in s.spans if (x.score or 0) >= min_confidence)
            for s in tag_sentences(read_sentences(file))
        ]
        write_sentences(out, tagged)
        Console(stderr=True).print(f"{len(tagged)} sentences, {sum(len(s.spans) for s in tagged)} entities → {out}")
        return
    tag: Callable[[Sequence[Any]], list[tuple[str, list[Entity]]]]
    rows: Iterable[Any]
    if is_corpus:  # its tokens are kept
        rows, tag = read_sentences(file), lambda some: [_placed(s) for s in tag_sentences(some)]
    else:
        rows, tag = _lines(file), lambda some: list(zip(some, tag_texts(some), strict=True))
    for some in _chunks(rows, _CHUNK):
        for row, (text, entities) in zip(some, tag(some), strict=True):
            kept = [e.to_dict() for e in entities if e.score >= min_confidence]
            line: dict[str, Any] = {"text": text, "entities": kept}
            if adapt and why:
                line["neighbours"] = [[n.to_dict() for n in near] for near in first.neighbours(row)]
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
        sys.stdout.flush()


def _placed(sentence: Sentence) -> tuple[str, list[Entity]]:
    """The text of a tagged sentence, and its entities there."""
    from nershift.data.formats.align import char_spans, text_and_offsets
    from nershift.tagger.entities import Entity

    text, offsets = text_and_offsets(sentence)
    spans = char_spans(sentence, offsets)
    return text, [Entity(s.start, s.end, s.label, text[s.start : s.end], s.score or 0.0) for s in spans]


def _predict_on_ray(
    model: Path, folder: str, out: Path | None, address: str, least: float, adapt: bool, why: bool
) -> None:
    from nershift.tagger.ray_predict import predict_folder

    if out is None or why:
        raise ConfigError(
            "--why is not for folders" if why else "no folder to write to was given",
            place="--ray",
            expected="nershift predict --ray ADDRESS --model DIR FOLDER --out FOLDER",
        )
    records, entities = predict_folder(model, Path(folder), out, address=address, min_confidence=least, adapt=adapt)
    Console(stderr=True).print(f"{records} records, {entities} entities → {out}")


def _lines(file: str) -> Iterator[str]:
    """Lines of a UTF-8 file or of standard input, without their ends."""
    if file != "-" and not Path(file).is_file():
        raise DataError("no such file", place=file, fix="check the path, or use - for standard input")
    with sys.stdin.buffer if file == "-" else open(file, "rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise DataError("not UTF-8", place=f"{file}:{number}", fix="save the text as UTF-8") from None


def _chunks(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def register(app: typer.Typer) -> None:
    app.command("predict")(predict)
