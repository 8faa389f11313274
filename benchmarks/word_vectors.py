"""Word vector files that hold just the words of some corpora, for machines to which whole files would be sent.

Rows come from a vector file (``glove.100d.txt`` by default) or, with ``--encoder``, from an encoder's sub-word
table, whose rows fit all languages. Runs with these files give the results of the whole ones on these corpora.

    python benchmarks/word_vectors.py --out FILE.gz [--vectors FILE] CORPUS …
    python benchmarks/word_vectors.py --out multilingual.256d.txt.gz --encoder multilingual --size 256 \\
        conll2003_en conll2002_es conll2002_nl
"""

from __future__ import annotations

import argparse
import gzip
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console

from nershift.data.catalog import locate
from nershift.data.formats import read_corpus
from nershift.data.problems import Problems
from nershift.data.raw import RawText
from nershift.encoders.words import find_vectors
from nershift.errors import DataError
from nershift.storage import write_bytes
from nershift.text.subword_vectors import SubwordVectors, find_encoder, read_subwords
from nershift.text.vector_file import VectorFile
from nershift.text.vectors import Coverage, read_vectors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpora", nargs="+", help="names of the catalogue")
    parser.add_argument("--out", type=Path, required=True, help="the file to write, gzipped if it ends in .gz")
    parser.add_argument("--vectors", default="glove.100d.txt")
    parser.add_argument("--encoder", help="take rows from this encoder's sub-word table instead")
    parser.add_argument("--size", type=int, default=100, help="axes of the sub-word table to keep")
    options = parser.parse_args()
    words: Counter[str] = Counter()
    for name in options.corpora:
        words.update(words_of(name))
    if options.encoder:
        rows = write_word_vectors(read_subwords(find_encoder(options.encoder), options.size), words, options.out)
        summary = f"{rows:,} words"
    else:
        summary = str(prune(find_vectors(options.vectors), words, options.out))
    Console().print(f"{options.out}: {summary}, {options.out.stat().st_size / 1e6:.1f} MB")


def words_of(name: str) -> Counter[str]:
    raw = sorted(locate(name).glob("raw.txt*"))
    if raw:
        return Counter(token for sentence in RawText(raw[0]) for token in sentence.tokens)
    return Counter(token for split in read_corpus(name).splits.values() for s in split for token in s.tokens)


def prune(path: str | Path, words: Iterable[str], out: str | Path, problems: Problems | None = None) -> Coverage:
    """Write the rows of a vector file that these words use: for them nothing changes.

    Rows are copied as text after a first line ``rows columns``. An ``out`` ending in ``.gz`` is gzipped.

    Args:
        path: the vector file.
        words: the words of all corpora that will be used; a ``Counter`` of them also gives token shares.
        out: the file to write.
        problems: as for :func:`read_vectors`.

    Returns:
        The coverage of the words, which is the same for both files.
    """
    counts = words if isinstance(words, Mapping) else Counter(words)
    problems = Problems() if problems is None else problems
    known = read_vectors(path, counts.keys(), problems=problems)
    used = {known.words[i] for i in map(known.find, counts) if i is not None}
    if not used:
        raise DataError(
            f"the file has a vector for none of the {len(counts)} words",
            place=str(path),
            fix="check that it is of the same language and script as the corpora",
        )
    file = VectorFile.open(path)
    quiet = Problems(repair=True)  # the first reading has reported them
    rows: dict[str, bytes] = {}
    for _, word, numbers in file.rows(quiet, None):
        if word in used:
            rows.setdefault(word, numbers)
    write_rows(out, file.dim, rows.items())
    return known.coverage(counts)


def write_word_vectors(vectors: SubwordVectors, words: Iterable[str], out: str | Path) -> int:
    """Write the vectors of ``words`` as a vector file with three decimals; gzipped if named ``.gz``.

    With ``encoder.words: {vectors: OUT, lower: false}`` a run on these words needs no encoder folder.

    Returns:
        The number of rows: words without sub-words or with a space in them are omitted.
    """
    rows = []
    for word in sorted(set(words)):
        if vectors.tokenizer.pieces(word) and not any(letter.isspace() for letter in word):
            rows.append((word, " ".join(f"{x:.3f}" for x in vectors.vector(word)).encode()))
    write_rows(out, vectors.matrix.shape[1], rows)
    return len(rows)


def write_rows(path: str | Path, dim: int, rows: Iterable[tuple[str, bytes]]) -> None:
    """Write rows below a first line ``rows columns``; equal rows give equal files, gzipped or not."""
    body = [word.encode() + b" " + numbers + b"\n" for word, numbers in rows]
    text = b"".join([f"{len(body)} {dim}\n".encode(), *body])
    path = Path(path)
    write_bytes(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


if __name__ == "__main__":
    main()
