"""A corpus from a file, a folder of split files, or a name in the catalogue; and back to a folder."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from pathlib import Path

from nershift.arguments import as_path, found
from nershift.data.catalog import Entry, catalog, entry, locate
from nershift.data.corpus import SPLIT_WORDS, Corpus, split_name
from nershift.data.formats.base import (
    CORPUS_FILE,
    DEFAULT,
    FORMATS,
    is_data_file,
    read_sentences,
    says_nested,
    unit_format,
    write_sentences,
)
from nershift.data.labels import Scheme
from nershift.data.problems import Problems
from nershift.errors import DataError
from nershift.storage import write_text

_log = logging.getLogger(__name__)

_TAGGED = re.compile(r"\.tagged\.jsonl(\.gz)?$")  # what a tagger made of a file beside it


def read_corpus(
    path: str | Path,
    *,
    name: str | None = None,
    format: str | None = None,
    domain: str = "",
    language: str = "",
    problems: Problems | None = None,
    token_column: int = 0,
    tag_column: int = -1,
    scheme: Scheme | None = None,
    labelled: bool = False,
    nested: bool | None = None,
) -> Corpus:
    """Read a corpus.

    Args:
        path: a file (the ``train`` split unless its name says otherwise); a folder with files or folders
            named after splits (``train.conll.gz``, ``dev.jsonl``, ``eng.testa``, ``raw.txt`` …); a folder that
            is one unit in its format, such as a saved dataset or ACE 2005, of which ``domain`` picks one genre;
            or a name in the catalogue.
        name: of the corpus; by default that of the file or folder.
        format: of every file; by default the one that name and content of each fit.
        domain, language: kept with the corpus.
        problems: see :func:`read_sentences`.
        token_column, tag_column, scheme: see :func:`read_sentences`.
        labelled: refuse text without labels, but for the ``raw`` split of a folder.
        nested: entities may overlap; by default as the folder's ``corpus.yaml`` says.

    Example:
        >>> corpus = read_corpus("corpora/news")
        >>> {name: len(sentences) for name, sentences in corpus.splits.items()}, corpus.types
        ({'train': 40, 'dev': 10, 'test': 60}, ('person', 'place'))
    """
    problems = problems if problems is not None else Problems()
    where = as_path(path, "read_corpus", "a path, or the name of a corpus in the catalogue")
    if not where.exists():
        listed = _catalog_entry(str(path))
        where, name, part = locate(listed.name), listed.name, listed.part
        domain, language = listed.domain, listed.language
    else:
        part = domain
    problems = replace(problems, nested=problems.nested or (says_nested(where) if nested is None else nested))
    kind = format if format or where.is_file() else _unit(where)
    if kind is not None and where.is_dir() and (read := FORMATS[kind].corpus) is not None:
        whole = read(where, problems, part)
        return Corpus(
            name or whole.name or _corpus_name(where), whole.splits, domain or whole.domain, language or whole.language
        )
    splits = {}
    files = {split_name(where) or "train": where} if where.is_file() or kind else _split_files(where)
    for split, file in files.items():
        splits[split] = tuple(
            read_sentences(
                file,
                format,
                problems,
                token_column=token_column,
                tag_column=tag_column,
                scheme=scheme,
                labelled=labelled and (split != "raw" or where.is_file()),
                nested=problems.nested,
            )
        )
    return Corpus(name or _corpus_name(where), splits, domain, language)


def _catalog_entry(name: str) -> Entry:
    if name in catalog():
        return entry(name)
    raise DataError(
        "there is no such file or folder, and no corpus of that name in the catalogue",
        place=name,
        expected=f"a path, or one of: {', '.join(catalog())}",
        fix="check the spelling",
    )


def _unit(folder: Path) -> str | None:
    """The format of a folder that is one unit; ``None`` for a folder of split files or folders."""
    name, confidence = unit_format(folder)
    return name if confidence == 1.0 or not any(_split_of(p) for p in _entries(folder)) else None


def _entries(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if not p.name.startswith("."))


def _split_of(path: Path) -> str | None:
    """The split that a file or folder of a corpus folder is; ``None`` for what is none."""
    usable = path.is_dir() or (is_data_file(path) and not _TAGGED.search(path.name.lower()))
    return split_name(path) if usable else None


def _is_companion(path: Path) -> bool:
    """Does the file only go with another one, such as the text beside an annotation?"""
    owners = (f.suffixes[0] for f in FORMATS.values() if f.companion and path.suffix == f.companion)
    return any(path.with_suffix(suffix).is_file() for suffix in owners)


def _split_files(folder: Path) -> dict[str, Path]:
    files: dict[str, Path] = {}
    skipped = []
    for path in _entries(folder):
        split = _split_of(path)
        if split is None or _is_companion(path):
            skipped.append(path.name)
        elif split in files:
            raise DataError(
                f"'{files[split].name}' and '{path.name}' both look like the {split} split",
                place=str(folder),
                expected="one file for each split",
                fix="move one of them away, or name the file to read",
            )
        else:
            files[split] = path
    if skipped:
        _log.info("%s: skipped %s, which are no splits", folder, ", ".join(skipped))
    if not files:
        raise DataError(
            f"no split files among: {', '.join(skipped) or 'nothing'}",
            place=str(folder),
            expected="train, dev or test files, such as train.conll or test.jsonl",
            fix="rename the files after their split, or give the path of one file",
        )
    return {split: files[split] for split in SPLIT_WORDS if split in files}


def _corpus_name(path: Path) -> str:
    stem = path.name.split(".")[0] if path.is_file() else path.name
    if path.is_file() and split_name(stem) and path.resolve().parent.name:
        return path.resolve().parent.name
    return stem or path.resolve().name


def write_corpus(
    folder: str | Path, corpus: Corpus, format: str = DEFAULT, *, scheme: Scheme | None = None
) -> list[Path]:
    """Write one file (or folder) per split, named after it (``raw.txt`` for raw); returns the paths.

    A corpus with nested entities also gets a ``corpus.yaml`` that says so.

    Example:
        >>> sorted(path.name for path in write_corpus("corpora/copy", read_corpus("corpora/news"), "jsonl"))
        ['dev.jsonl', 'test.jsonl', 'train.jsonl']
    """
    if not isinstance(corpus, Corpus):
        raise DataError(found(corpus), place="write_corpus", expected="a Corpus", fix="nershift.read_corpus(path)")
    written, folder = [], as_path(folder, "write_corpus")
    for split, sentences in corpus.splits.items():
        if split == "raw" and not any(s.spans for s in sentences):
            path = folder / "raw.txt"
            write_sentences(path, sentences)
        else:
            ending = "" if format not in FORMATS or FORMATS[format].folder else FORMATS[format].suffixes[0]
            path = folder / (split + ending)
            write_sentences(path, sentences, format, scheme=scheme)
        written.append(path)
    if corpus.nested:
        write_text(folder / CORPUS_FILE, "nested: true\n")
    return written
