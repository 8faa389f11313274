"""The table of formats, and which one a path is in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nershift.data.formats import ace2005, argilla, brat, conll, docbin, doccano, hf_datasets, jsonl, plain
from nershift.data.formats.files import head_of, lines_of
from nershift.data.formats.tagged import looks_like_tag
from nershift.data.problems import Problems
from nershift.data.schemes import Scheme
from nershift.data.spans import Sentence, overlapping
from nershift.errors import ConfigError, DataError, nearest


@dataclass(frozen=True)
class Format:
    """How one format is read and written; the first suffix is the one new files get.

    ``read_options`` and ``write_options`` name the keyword settings its functions take; ``labelled`` says whether
    its files have entities, ``nested`` whether these may overlap.
    """

    suffixes: tuple[str, ...]
    read: Callable[..., list[Sentence]]
    write: Callable[..., None] | None = None
    read_options: frozenset[str] = frozenset()
    write_options: frozenset[str] = frozenset()
    labelled: bool = True
    nested: bool = False


_COLUMNS = frozenset(["token_column", "tag_column", "scheme"])
_SCHEME = frozenset(["scheme"])

FORMATS: dict[str, Format] = {
    "conll": Format(
        (".conll", ".bio", ".iob", ".iob2", ".bioes", ".bilou", ".bmes", ".tsv", ".col"),
        conll.read,
        conll.write,
        _COLUMNS,
        _SCHEME,
    ),
    "jsonl": Format((".jsonl", ".ndjson"), jsonl.read, jsonl.write, nested=True),
    "docbin": Format((".spacy",), docbin.read, docbin.write, nested=True),
    "brat": Format((".ann",), brat.read, brat.write, nested=True),
    "doccano": Format((".doccano.jsonl",), doccano.read, doccano.write, nested=True),
    "argilla": Format(
        (".argilla.jsonl", ".json"), argilla.read, argilla.write, write_options=frozenset(["reviewed"]), nested=True
    ),
    "datasets": Format((), hf_datasets.read, hf_datasets.write, frozenset(), _SCHEME),
    "ace2005": Format((".apf.xml", ".sgm"), ace2005.read),
    "raw": Format((".raw", ".raw.txt"), plain.read_raw, plain.write_raw, labelled=False),
    "text": Format((".txt",), plain.read_text_file, labelled=False),
}
WRITABLE = tuple(key for key, known in FORMATS.items() if known.write is not None)
CORPUS_FILE = "corpus.yaml"  # what a corpus says about itself
_NAMED = 10  # files of a folder that a message lists
_RAW_NAMES = ("raw", "unlabelled", "unlabeled")


def detect_format(path: str | Path) -> str:
    """The format of an existing file or folder, or of one to be written, by name and then by content.

    Raises:
        DataError: the name says nothing and the content looks like none of the formats, or a folder is not one unit.
    """
    path = Path(path)
    if path.is_dir():
        found = folder_format(path)
        if found is None:
            raise _no_file(path)
    else:
        found = _name_format(path.name.lower().removesuffix(".gz"))
        if path.is_file() and found in (None, "jsonl", "argilla", "text"):
            found = _content_format(path, found)
    if found is None:
        how = "the name or the content" if path.exists() else "the name"
        raise _untold(f"the format cannot be told from {how}", path, FORMATS)
    return found


def _format_to_write(path: Path) -> str:
    found = _name_format(path.name.lower().removesuffix(".gz"))
    if found is None and path.exists():  # as what it replaces
        with suppress(DataError):
            found = detect_format(path)
    if found is None:
        told = "this is a folder" if path.is_dir() else "the format cannot be told from the name"
        raise _untold(told, path, WRITABLE)
    return found


def _untold(found: str, path: Path, formats: Iterable[str]) -> DataError:
    keys = list(formats)
    return DataError(
        found,
        place=str(path),
        expected="a name that ends in " + ", ".join(s for key in keys for s in FORMATS[key].suffixes),
        fix=f"name the format: {', '.join(keys)}",
    )


def is_data_file(path: Path) -> bool:
    """Does the name alone say that this is a corpus file? (``eng.testa`` and the like count as CoNLL.)"""
    name = path.name.lower().removesuffix(".gz")
    return _name_format(name) is not None


def _name_format(name: str) -> str | None:
    if name.split(".")[0] in _RAW_NAMES and name.endswith(".txt"):
        return "raw"
    fits = [(len(s), key) for key, f in FORMATS.items() for s in f.suffixes if name.endswith(s)]
    if fits:
        return max(fits)[1]
    # CoNLL shared task style: eng.train, eng.testa, deu.testb
    return "conll" if name.endswith((".train", ".dev", ".test", ".testa", ".testb", ".valid")) else None


def _no_file(folder: Path) -> DataError:
    inside = sorted(p.name for p in folder.iterdir() if p.is_file() and is_data_file(p))
    more = f" and {len(inside) - _NAMED} more" if len(inside) > _NAMED else ""
    return DataError(
        "this is a folder",
        place=str(folder),
        expected="one file",
        fix=f"name a file in it: {', '.join(inside[:_NAMED])}{more}" if inside else "name a corpus file",
    )


def folder_format(path: Path) -> str | None:
    """The format of a folder that is one unit, if it is one."""
    if any((path / name).is_file() for name in ("dataset_dict.json", "dataset_info.json", "state.json")):
        return "datasets"
    if any(path.glob("*.ann")):
        return "brat"
    return "ace2005" if next(path.rglob("*.apf.xml"), None) is not None else None


def _content_format(path: Path, by_name: str | None) -> str | None:
    if by_name == "text" and path.with_suffix(".ann").is_file():
        return "brat"
    head = head_of(path)
    lines = [line for line in lines_of(head) if line.strip()][:20]
    if lines and lines[0].lstrip()[0] in "[{":
        return _record_format(head, by_name)
    rows = [line.split("\t") if "\t" in line else line.split() for line in lines]
    tagged = [r for r in rows if not r[0].startswith(("#", "-DOCSTART-"))]
    if tagged and all(len(r) > 1 and looks_like_tag(r[-1].strip()) for r in tagged[:-1] or tagged):
        return "conll"
    return by_name


def _record_format(head: str, by_name: str | None) -> str | None:
    """Tell the JSON formats apart by the keys of the first record."""
    record: dict[str, Any] = {}
    with suppress(ValueError):  # broken JSON is the reader's to report
        record, _ = json.JSONDecoder().raw_decode(head, head.index("{"))
    if not record:
        return by_name or "jsonl"
    if isinstance(record.get("fields"), dict) or "annotation" in record or "prediction" in record:
        return "argilla"
    entities = record.get("entities")
    newer = isinstance(entities, list) and bool(entities) and "start_offset" in str(entities[0])
    if newer or ("label" in record and not {"spans", "entities", "tokens"} & record.keys()):
        return "doccano"
    return "jsonl"


def read_sentences(
    path: str | Path,
    format: str | None = None,
    problems: Problems | None = None,
    *,
    token_column: int = 0,
    tag_column: int = -1,
    scheme: Scheme | None = None,
    labelled: bool = False,
    nested: bool | None = None,
) -> list[Sentence]:
    """Read one file (or a folder that is one unit, such as brat pairs).

    Args:
        path: what to read.
        format: a name from :data:`FORMATS`; told from the path when left out.
        problems: ``Problems(repair=True)`` to go on after misfits and keep count; by default the first
            one raises.
        token_column, tag_column: for columns, counted from 0 or, negative, from the end.
        scheme: the tag scheme of columns; found by counting when left out.
        labelled: refuse formats without entities.
        nested: entities may overlap; by default as ``corpus.yaml`` in the same folder says (``nested: true``).
    """
    path = Path(path)
    if not path.exists():
        raise DataError("there is no such file or folder", place=str(path), fix="check the path")
    name = format or detect_format(path)
    known = _known(name)
    if labelled and not known.labelled:
        raise DataError(
            f"this is text without labels (format '{name}')",
            place=str(path),
            expected="a format with labels: " + ", ".join(key for key, f in FORMATS.items() if f.labelled),
            fix="give a labelled file; text without labels goes to --raw NAME=FILE or nershift predict",
        )
    options = {"token_column": token_column, "tag_column": tag_column, "scheme": scheme}
    kept = {key: value for key, value in options.items() if key in known.read_options}
    problems = problems if problems is not None else Problems()
    allowed = problems.nested or (says_nested(path) if nested is None else nested)
    return known.read(path, replace(problems, nested=allowed), **kept)


def says_nested(path: Path) -> bool:
    """Does a corpus say that its entities may overlap (``nested: true`` in the ``corpus.yaml`` of its folder)?"""
    import yaml

    file = (path if path.is_dir() else path.parent) / CORPUS_FILE
    if not file.is_file():
        return False
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"not a readable YAML file ({error})", place=str(file), expected="nested: true") from None
    if not isinstance(content, dict) or content.keys() != {"nested"} or not isinstance(content["nested"], bool):
        raise DataError(f"found {content!r}", place=str(file), expected="nested: true, or nested: false")
    return content["nested"]


def write_sentences(
    path: str | Path,
    sentences: Iterable[Sentence],
    format: str | None = None,
    *,
    scheme: Scheme | None = None,
    reviewed: bool = True,
) -> None:
    """Write one file; an existing one is replaced only when the new one is complete.

    Args:
        path: where to; ``.gz`` at the end packs it.
        sentences: what to write.
        format: a name from :data:`WRITABLE`; told from the name when left out.
        scheme: for the formats with tags (default BIO).
        reviewed: False marks the spans as suggestions, in formats that know the difference.
    """
    path = Path(path)
    name = format or _format_to_write(path)
    known = _known(name, WRITABLE)
    if known.write is None:
        raise ConfigError(
            f"format '{name}' can be read but not written",
            place=str(path),
            expected=", ".join(WRITABLE),
            fix="choose one of these",
        )
    if scheme is not None and "scheme" not in known.write_options:
        raise ConfigError(f"format '{name}' has spans, not tags: it has no scheme", fix="leave the scheme away")
    sentences = list(sentences)
    clash = next((s for s in sentences if overlapping(s.spans)), None) if not known.nested else None
    if clash is not None:
        raise DataError(
            f"the sentence has entities that overlap, which format '{name}' cannot hold",
            place=clash.place,
            expected=f"a format with spans: {', '.join(key for key in WRITABLE if FORMATS[key].nested)}",
            fix="write one of these (--to jsonl)",
        )
    options: dict[str, Any] = {"scheme": scheme} if scheme is not None else {}
    if "reviewed" in known.write_options:
        options["reviewed"] = reviewed
    known.write(path, sentences, **options)


def _known(name: str, usable: Iterable[str] = tuple(FORMATS)) -> Format:
    if name not in FORMATS:
        raise ConfigError(
            f"unknown format '{name}'{nearest(name, usable)}",
            expected=", ".join(usable),
            fix="name one of these",
        )
    return FORMATS[name]
