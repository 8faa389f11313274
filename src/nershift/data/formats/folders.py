"""A corpus from a file, a folder of split files, or a name in the catalogue; and back to a folder."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from pathlib import Path

from nershift.data.corpus import Corpus
from nershift.data.formats import ace2005, hf_datasets
from nershift.data.formats.registry import (
    CORPUS_FILE,
    FORMATS,
    folder_format,
    is_data_file,
    read_sentences,
    says_nested,
    write_sentences,
)
from nershift.data.problems import Problems
from nershift.data.schemes import Scheme
from nershift.data.spans import Sentence
from nershift.errors import ConfigError, DataError
from nershift.storage import write_text

_log = logging.getLogger(__name__)

_SPLITS = {
    "train": ("train", "training"),
    "dev": ("dev", "devel", "development", "valid", "validation", "val", "testa"),
    "test": ("test", "testb", "testing"),
    "raw": ("raw", "unlabelled", "unlabeled"),
}
_BY_WORD = {word: split for split, words in _SPLITS.items() for word in words}
_TAGGED = re.compile(r"\.tagged\.jsonl(\.gz)?$")  # what a tagger made of a file beside it
_ENDING = re.compile(r"(?<![a-z])(train|dev|valid|testa|testb|test)$")


def split_name(path: str | Path) -> str | None:
    """The split a file name speaks of: ``eng.testa`` → ``dev``, ``wnut17train.conll`` → ``train``.

    Example:
        >>> [split_name(n) for n in ("valid.txt", "test.conll.gz", "notes.txt")]
        ['dev', 'test', None]
    """
    words = re.split(r"[._\-\s]+", Path(path).name.lower())
    named = [_BY_WORD[w] for w in words if w in _BY_WORD]
    if not named:
        named = [_BY_WORD[m.group(1)] for w in words if (m := _ENDING.search(w))]
    return named[0] if named else None


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
            named after splits (``train.conll.gz``, ``dev.jsonl``, ``eng.testa``, ``raw.txt`` …); a saved
            dataset; the ACE 2005 folder, of which ``domain`` picks one genre; or a name in the catalogue.
        name: of the corpus; by default that of the file or folder.
        format: of every file, when names and content do not tell.
        domain, language: kept with the corpus.
        problems: see :func:`read_sentences`.
        token_column, tag_column, scheme: see :func:`read_sentences`.
        labelled: refuse text without labels, but for the ``raw`` split of a folder.
        nested: entities may overlap; by default as the folder's ``corpus.yaml`` says.
    """
    problems = problems if problems is not None else Problems()
    where = Path(path)
    if not where.exists():
        return _from_catalogue(path, replace(problems, nested=nested or problems.nested))
    problems = replace(problems, nested=problems.nested or (says_nested(where) if nested is None else nested))
    splits: dict[str, list[Sentence]] = {}
    kind = format if format or where.is_file() else _unit(where)
    if kind == "ace2005" and where.is_dir():
        return _ace(where, name, domain, problems)
    if kind == "datasets":
        for key, sentences in hf_datasets.read_splits(where, problems).items():
            splits[split_name(key) or key] = sentences
    else:
        files = {split_name(where) or "train": where} if where.is_file() or kind else _split_files(where)
        for split, file in files.items():
            splits[split] = read_sentences(
                file,
                format,
                problems,
                token_column=token_column,
                tag_column=tag_column,
                scheme=scheme,
                labelled=labelled and (split != "raw" or where.is_file()),
                nested=problems.nested,
            )
    return Corpus(name or _corpus_name(where), {k: tuple(v) for k, v in splits.items()}, domain, language)


def _from_catalogue(name: str | Path, problems: Problems) -> Corpus:
    from nershift.data.catalog import catalog, load  # the catalogue reads with this module

    if str(name) in catalog():
        return load(str(name), problems=problems)
    raise DataError(
        "there is no such file or folder, and no corpus of that name in the catalogue",
        place=str(name),
        expected=f"a path, or one of: {', '.join(catalog())}",
        fix="check the spelling",
    )


def _unit(folder: Path) -> str | None:
    """The format of a folder that is one unit; ``None`` for a folder of split files or folders."""
    pairs = [split_name(p) for p in folder.glob("*.ann")]
    if pairs and (None in pairs or len(set(pairs)) < len(pairs)):
        return "brat"
    if any(_split_of(p) for p in _entries(folder)):
        saved = (folder / "dataset_dict.json").is_file()
        return "datasets" if saved else None
    return folder_format(folder)


def _entries(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if not p.name.startswith("."))


def _split_of(entry: Path) -> str | None:
    """The split that a file or folder of a corpus folder is; ``None`` for what is none."""
    usable = entry.is_dir() or (is_data_file(entry) and not _TAGGED.search(entry.name.lower()))
    return split_name(entry) if usable else None


def _split_files(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    passed_over = []
    for entry in _entries(folder):
        split = _split_of(entry)
        if split is None or (entry.suffix == ".txt" and entry.with_suffix(".ann").is_file()):
            passed_over.append(entry.name)
        elif split in found:
            raise DataError(
                f"'{found[split].name}' and '{entry.name}' both look like the {split} split",
                place=str(folder),
                expected="one file for each split",
                fix="move one of them away, or name the file to read",
            )
        else:
            found[split] = entry
    if passed_over:
        _log.info("%s: passed over %s, which are no splits", folder, ", ".join(passed_over))
    if not found:
        raise DataError(
            f"no split files among: {', '.join(passed_over) or 'nothing'}",
            place=str(folder),
            expected="train, dev or test files, such as train.conll or test.jsonl",
            fix="rename the files after their split, or give the path of one file",
        )
    order = [*_SPLITS]
    return dict(sorted(found.items(), key=lambda item: order.index(item[0])))


def _ace(folder: Path, name: str | None, genre: str, problems: Problems) -> Corpus:
    corpora = ace2005.read_genres(folder, problems).corpora
    if genre:
        if genre not in corpora:
            raise ConfigError(f"ACE 2005 has no genre '{genre}' here", expected=", ".join(corpora))
        return corpora[genre]
    whole = Corpus(name or "ace2005", domain="all genres", language="English")
    parts = {s: [x for c in corpora.values() for x in c.split(s)] for s in ("train", "dev", "test")}
    return whole.with_splits(**parts)


def _corpus_name(path: Path) -> str:
    stem = path.name.split(".")[0] if path.is_file() else path.name
    if path.is_file() and split_name(stem) and path.resolve().parent.name:
        return path.resolve().parent.name
    return stem or path.resolve().name


def write_corpus(
    folder: str | Path, corpus: Corpus, format: str = "conll", *, scheme: Scheme | None = None
) -> list[Path]:
    """Write one file (or folder) per split, named after it (``raw.txt`` for raw); returns the paths.

    A corpus with nested entities also gets a ``corpus.yaml`` that says so.
    """
    written = []
    for split, sentences in corpus.splits.items():
        if split == "raw" and not any(s.spans for s in sentences):
            path = Path(folder) / "raw.txt"
            write_sentences(path, sentences, "raw")
        else:
            suffixes = FORMATS[format].suffixes if format in FORMATS else ()
            folder_of_pairs = format == "brat"
            path = Path(folder) / (split + ("" if folder_of_pairs or not suffixes else suffixes[0]))
            write_sentences(path, sentences, format, scheme=scheme)
        written.append(path)
    if corpus.nested:
        write_text(Path(folder) / CORPUS_FILE, "nested: true\n")
    return written
