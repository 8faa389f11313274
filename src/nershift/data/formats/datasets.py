"""Hugging Face datasets saved with ``save_to_disk``: columns of tokens and of tags (names or classes)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nershift.data.corpus import Corpus, split_name
from nershift.data.formats.base import FORMATS, Format
from nershift.data.formats.tagged import Block, sentences_from_tags
from nershift.data.labels import PREFIXES, Scheme, spans_to_tags
from nershift.data.problems import Problems
from nershift.data.spans import Sentence
from nershift.errors import DataError, MissingExtraError, NershiftError
from nershift.storage import replacing

_TOKEN_COLUMNS = ("tokens", "words")
_TAG_COLUMNS = ("ner_tags", "tags", "labels", "ner")


def _datasets() -> Any:
    try:
        import datasets
    except ImportError:
        raise MissingExtraError("datasets", "datasets", "reading and writing saved datasets") from None
    return datasets


def read(path: Path, problems: Problems) -> list[Sentence]:
    """Read a folder with one dataset; one with several splits is read by :func:`corpus`."""
    splits = read_splits(path, problems)
    if len(splits) > 1:
        raise DataError(
            f"the folder holds {len(splits)} splits: {', '.join(splits)}",
            place=str(path),
            expected="one dataset",
            fix="read the folder as a corpus, or name the folder of one split",
        )
    return next(iter(splits.values()))


def corpus(path: Path, problems: Problems, domain: str) -> Corpus:
    splits = read_splits(path, problems)
    return Corpus("", {split_name(name) or name: tuple(sentences) for name, sentences in splits.items()})


def read_splits(path: Path, problems: Problems) -> dict[str, list[Sentence]]:
    """Sentences of each split, or under ``train`` for a dataset without splits."""
    datasets = _datasets()
    try:
        for file in sorted(path.rglob("*.arrow")):
            _check_arrow(file)
        loaded = datasets.load_from_disk(str(path))
        tables = dict(loaded) if isinstance(loaded, datasets.DatasetDict) else {"train": loaded}
        places = {name: f"{path}/{name}" if len(tables) > 1 else str(path) for name in tables}
        rows = {name: _rows(table, places[name]) for name, table in tables.items()}
    except NershiftError:
        raise
    except Exception as error:  # pyarrow, json and file errors alike
        raise _unreadable(f"not a readable dataset folder ({type(error).__name__}: {error})", path) from None
    return {name: _sentences(*rows[name], places[name], problems) for name in tables}


def _check_arrow(file: Path) -> None:
    """Refuse what is damaged: looking at a value through a wrong offset would end the process."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as reader:
            for batch in reader:
                batch.validate(full=True)
            at = source.tell()
            source.seek(max(0, at - 4))
            whole = at == source.size() and source.read() == bytes(4)  # the mark of the end
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(f"the file is damaged ({str(error).splitlines()[0]})", file) from None
    if not whole:
        raise _unreadable("the file ends too early, or holds more than one table", file)


def _unreadable(found: str, place: Path) -> DataError:
    return DataError(found, place=str(place), expected="a folder written by save_to_disk", fix="save the dataset again")


def _rows(table: Any, place: str) -> tuple[list[tuple[Any, Any]], list[str] | None]:
    """Tokens and tags of each row, and the names of the tags where they are numbers."""
    tokens_column = _column(table, _TOKEN_COLUMNS, place)
    tags_column = _column(table, _TAG_COLUMNS, place)
    names = getattr(getattr(table.features[tags_column], "feature", None), "names", None)
    return list(zip(table[tokens_column], table[tags_column], strict=True)), names


def _sentences(
    rows: Sequence[tuple[Any, Any]], names: list[str] | None, place: str, problems: Problems
) -> list[Sentence]:
    blocks = []
    for number, (tokens, tags) in enumerate(rows):
        if found := _wrong(tokens, tags, len(names or ())):
            problems.report(
                "bad record",
                f"{place}:{number}",
                found,
                expected="one tag for each token, and at least one token",
                fix="correct or remove the row",
                repair="row left out",
            )
            continue
        blocks.append(Block(list(tokens), _tag_names(tags, names, f"{place}:{number}"), [number] * len(tokens)))
    return sentences_from_tags(blocks, place, problems)


def _wrong(tokens: Any, tags: Any, classes: int) -> str:
    """What is wrong with a row, if anything is."""
    if not (isinstance(tokens, list) and isinstance(tags, list)):
        return f"{type(tokens).__name__} and {type(tags).__name__} in place of lists of tokens and tags"
    if len(tokens) != len(tags) or not tokens:
        return f"{len(tokens)} tokens with {len(tags)} tags"
    if not all(isinstance(token, str) and token for token in tokens):
        return "a token that is empty or no text"
    if classes and not all(isinstance(tag, int) and 0 <= tag < classes for tag in tags):
        return f"a tag that is none of the {classes} classes"
    return ""


def _tag_names(tags: list[Any], names: list[str] | None, place: str) -> list[str]:
    if names is not None:
        return [names[i] for i in tags]
    if all(isinstance(tag, str) for tag in tags):
        return list(tags)
    raise DataError(
        "tags are numbers without names",
        place=place,
        expected="strings such as B-PER, or a ClassLabel feature",
        fix="cast the column to Sequence(ClassLabel(names=[…])) and save again",
    )


def _column(table: Any, known: tuple[str, ...], place: str) -> str:
    for name in known:
        if name in table.column_names:
            return name
    raise DataError(
        f"the columns are: {', '.join(table.column_names)}",
        place=place,
        expected=f"one of: {', '.join(known)}",
        fix="rename the column and save again",
    )


def write(path: Path, sentences: Iterable[Sentence], *, scheme: Scheme = "BIO") -> None:
    """Save ``id``, ``tokens`` and ``ner_tags`` (class labels); the text is not part of the format."""
    datasets = _datasets()
    made = list(sentences)
    types = sorted({span.label for sentence in made for span in sentence.spans})
    names = ["O", *(f"{prefix}-{label}" for label in types for prefix in PREFIXES[scheme])]
    index = {name: i for i, name in enumerate(names)}
    columns = {
        "id": [str(i) for i in range(len(made))],
        "tokens": [list(sentence.tokens) for sentence in made],
        "ner_tags": [[index[t] for t in spans_to_tags(s.spans, len(s), scheme)] for s in made],
    }
    text = datasets.Value("string")
    features = datasets.Features(
        {"id": text, "tokens": datasets.Sequence(text), "ner_tags": datasets.Sequence(datasets.ClassLabel(names=names))}
    )
    with replacing(path) as temporary:
        datasets.Dataset.from_dict(columns, features=features).save_to_disk(str(temporary))


def matches(path: Path, head: str) -> float:
    if (path / "dataset_dict.json").is_file():
        return 1.0
    return 0.9 if any((path / name).is_file() for name in ("dataset_info.json", "state.json")) else 0.0


FORMATS.register("datasets")(Format((), read, write, matches, corpus=corpus, folder=True))
