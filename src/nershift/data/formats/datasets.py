"""Hugging Face datasets saved with ``save_to_disk``: columns of tokens and of tags (names or classes)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nershift.data.corpus import Corpus, split_name
from nershift.data.formats.base import FORMATS, Format
from nershift.data.formats.tagged import Block, sentences_from_tags
from nershift.data.labels import PREFIXES, Scheme, spans_to_tags
from nershift.data.problems import Problems
from nershift.data.spans import Sentence
from nershift.errors import DataError, MissingExtraError
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
        loaded = datasets.load_from_disk(str(path))
    except Exception as error:  # pyarrow, json and file errors alike
        raise DataError(
            f"not a readable dataset folder ({error})",
            place=str(path),
            expected="a folder written by save_to_disk",
            fix="save the dataset again",
        ) from None
    tables = dict(loaded) if isinstance(loaded, datasets.DatasetDict) else {"train": loaded}
    return {
        name: _sentences(table, f"{path}/{name}" if len(tables) > 1 else str(path), problems)
        for name, table in tables.items()
    }


def _sentences(table: Any, place: str, problems: Problems) -> list[Sentence]:
    tokens_column = _column(table, _TOKEN_COLUMNS, place)
    tags_column = _column(table, _TAG_COLUMNS, place)
    names = getattr(getattr(table.features[tags_column], "feature", None), "names", None)
    blocks = []
    rows = zip(table[tokens_column], table[tags_column], strict=True)
    for number, (tokens, tags) in enumerate(rows):
        if len(tokens) != len(tags) or not tokens:
            problems.report(
                "bad record",
                f"{place}:{number}",
                f"{len(tokens)} tokens with {len(tags)} tags",
                expected="one tag for each token, and at least one token",
                fix="correct or remove the row",
                repair="row left out",
            )
            continue
        blocks.append(Block(list(tokens), _tag_names(tags, names, f"{place}:{number}"), [number] * len(tokens)))
    return sentences_from_tags(blocks, place, problems)


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
