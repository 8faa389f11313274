"""What a format is, which one a path is in, and files in and out. Each format is a module that registers itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from inspect import signature
from pathlib import Path
from typing import Any

from nershift.arguments import as_path
from nershift.data.corpus import Corpus
from nershift.data.formats.files import head_of
from nershift.data.labels import Scheme
from nershift.data.problems import Problems
from nershift.data.spans import Sentence, overlapping
from nershift.errors import ConfigError, DataError, nearest
from nershift.parsing import parse_yaml
from nershift.registry import Registry


@dataclass(frozen=True)
class Format:
    """How files of one format are recognised, read and written.

    Args:
        suffixes: endings of its files; new files get the first.
        read: the sentences of a path, ``read(path, problems)``. It may take the keywords ``token_column``,
            ``tag_column`` and ``scheme``.
        write: ``write(path, sentences)``, where the format can be written. It may take ``scheme`` and ``reviewed``.
        matches: how sure the content makes it, ``matches(path, head)`` with the first characters of a file or, for a
            folder, an empty string. 0: it is not this format. 0.5 and more outweighs a name that says little, such as
            ``.txt``. 1: a folder is one unit in this format even if it has files that are named after splits.
        names: patterns of whole file names that are in this format too, such as ``*.train``.
        corpus: reads a path with several splits, ``corpus(path, problems, domain)``.
        companion: ending of the second file that lies beside each file.
        folder: a split is written as a folder.
        labelled: its files have entities.
        nested: it can hold entities that overlap.

    Example::

        FORMATS.register("brackets")(Format((".brackets",), read, write))

    Another package registers a format by an entry point of the group ``nershift.formats`` that names the value.
    """

    suffixes: tuple[str, ...]
    read: Callable[..., list[Sentence]]
    write: Callable[..., None] | None = None
    matches: Callable[[Path, str], float] = lambda path, head: 0.0
    names: tuple[str, ...] = ()
    corpus: Callable[[Path, Problems, str], Corpus] | None = None
    companion: str = ""
    folder: bool = False
    labelled: bool = True
    nested: bool = False


FORMATS: Registry[Format] = Registry("format", "nershift.formats", "nershift.data.formats")
DEFAULT = "conll"  # what a corpus is written in where nobody says
CORPUS_FILE = "corpus.yaml"  # what a corpus says about itself
_VAGUE = ("*.txt", "*.json", "*.jsonl", "*.ndjson")  # names that say little: the content decides
_LISTED = 10  # files of a folder that a message lists


def register(name: str, *aliases: str) -> Callable[[Format], Format]:
    """Make a format known under ``name``.

    Example:
        >>> mine = register("mine")(Format((".mine",), read=lambda path, problems: []))
        >>> FORMATS["mine"] is mine
        True
    """
    return FORMATS.register(name, *aliases)


def writable() -> list[str]:
    """The names of the formats that can be written, the usual one first."""
    names = [name for name, known in FORMATS.items() if known.write is not None]
    return sorted(names, key=lambda name: name != DEFAULT)


def detect_format(path: str | Path) -> str:
    """The format of an existing file or folder, or of one to be written, by name and then by content.

    Raises:
        DataError: neither name nor content is that of a known format, or a folder is not one unit.
    """
    path = Path(path)
    by_name, vague = (None, True) if path.is_dir() else _by_name(path)
    if by_name is not None and not vague:
        return by_name
    by_content, confidence = unit_format(path) if path.exists() else (None, 0.0)
    best = by_content if by_name is None or confidence >= 0.5 else by_name
    if best is None:
        if path.is_dir():
            raise _no_file(path)
        how = "the name or the content" if path.exists() else "the name"
        raise _unknown(f"the format cannot be told from {how}", path, list(FORMATS))
    return best


def unit_format(path: Path) -> tuple[str | None, float]:
    """The format that the content of a file, or a folder as a whole, fits best, and how sure that is."""
    head = "" if path.is_dir() else head_of(path)
    confidence, name = max((known.matches(path, head), name) for name, known in FORMATS.items())
    return (name, confidence) if confidence else (None, 0.0)


def _by_name(path: Path) -> tuple[str | None, bool]:
    """The format that a file name speaks of, and whether the name says little."""
    name = path.name.lower().removesuffix(".gz")
    patterns = ((p, key) for key, f in FORMATS.items() for p in (*(f"*{s}" for s in f.suffixes), *f.names))
    pattern, key = max(((p, key) for p, key in patterns if fnmatchcase(name, p)), key=_length, default=("", None))
    return key, pattern in _VAGUE


def _length(fit: tuple[str, str]) -> int:
    return len(fit[0])


def is_data_file(path: Path) -> bool:
    """Does the name alone say that this is a corpus file?"""
    return _by_name(path)[0] is not None


def _format_to_write(path: Path) -> str:
    name, _ = _by_name(path)
    if name is None and path.exists():  # as what it replaces
        with suppress(DataError):
            name = detect_format(path)
    if name is None:
        found = "this is a folder" if path.is_dir() else "the format cannot be told from the name"
        raise _unknown(found, path, writable())
    return name


def _unknown(found: str, path: Path, names: list[str]) -> DataError:
    return DataError(
        found,
        place=str(path),
        expected="a name that ends in " + ", ".join(s for name in names for s in FORMATS[name].suffixes),
        fix=f"name the format: {', '.join(names)}",
    )


def _no_file(folder: Path) -> DataError:
    inside = sorted(p.name for p in folder.iterdir() if p.is_file() and is_data_file(p))
    more = f" and {len(inside) - _LISTED} more" if len(inside) > _LISTED else ""
    return DataError(
        "this is a folder",
        place=str(folder),
        expected="one file",
        fix=f"name a file in it: {', '.join(inside[:_LISTED])}{more}" if inside else "name a corpus file",
    )


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
        format: a name from :data:`FORMATS`; by default the one that name and content of the path fit.
        problems: ``Problems(repair=True)`` to go on after problems and count them; by default the first one raises.
        token_column, tag_column: for columns, counted from 0 or, negative, from the end.
        scheme: the tag scheme of columns; by default the one that the fewest tags break.
        labelled: refuse formats without entities.
        nested: entities may overlap; by default as ``corpus.yaml`` in the same folder says (``nested: true``).
    """
    path = as_path(path, "read_sentences")
    if not path.exists():
        raise DataError("there is no such file or folder", place=str(path), fix="check the path")
    name = format or detect_format(path)
    known = _known(name, list(FORMATS))
    if labelled and not known.labelled:
        raise DataError(
            f"this is text without labels (format '{name}')",
            place=str(path),
            expected="a format with labels: " + ", ".join(key for key, f in FORMATS.items() if f.labelled),
            fix="give a labelled file; text without labels goes to --raw NAME=FILE or nershift predict",
        )
    problems = problems if problems is not None else Problems()
    allowed = problems.nested or (says_nested(path) if nested is None else nested)
    options = _accepted(known.read, token_column=token_column, tag_column=tag_column, scheme=scheme)
    return known.read(path, replace(problems, nested=allowed), **options)


def says_nested(path: Path) -> bool:
    """Does a corpus say that its entities may overlap (``nested: true`` in the ``corpus.yaml`` of its folder)?"""
    file = (path if path.is_dir() else path.parent) / CORPUS_FILE
    if not file.is_file():
        return False
    try:
        content = parse_yaml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
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
        path: where to; ``.gz`` at the end compresses it.
        sentences: what to write.
        format: one of :func:`writable`; by default the one that the name fits.
        scheme: for the formats with tags (default BIO).
        reviewed: False marks the spans as suggestions, in formats that know the difference.
    """
    path = Path(path)
    name = format or _format_to_write(path)
    known = _known(name, writable())
    if known.write is None:
        raise ConfigError(
            f"format '{name}' can be read but not written",
            place=str(path),
            expected=", ".join(writable()),
            fix="choose one of these",
        )
    options = _accepted(known.write, reviewed=reviewed, scheme=scheme or "BIO")
    if scheme is not None and "scheme" not in options:
        raise ConfigError(f"format '{name}' has spans, not tags: it has no scheme", fix="omit the scheme")
    sentences = list(sentences)
    clash = next((s for s in sentences if overlapping(s.spans)), None) if not known.nested else None
    if clash is not None:
        raise DataError(
            f"the sentence has entities that overlap, which format '{name}' cannot hold",
            place=clash.place,
            expected=f"a format with spans: {', '.join(key for key in writable() if FORMATS[key].nested)}",
            fix="write one of these (--to jsonl)",
        )
    known.write(path, sentences, **options)


def _accepted(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """Those of the options that a reader or writer has a parameter for."""
    return {name: value for name, value in options.items() if name in signature(function).parameters}


def _known(name: str, usable: list[str]) -> Format:
    if isinstance(name, str) and name not in FORMATS:
        raise ConfigError(
            f"unknown format '{name}'{nearest(name, usable)}", expected=", ".join(usable), fix="name one of these"
        )
    return FORMATS[name]
