"""Word vector files that hold just the words of some corpora, for machines to which whole files would be sent.

Rows come from a vector file (``glove.100d.txt`` by default) or, with ``--encoder``, from an encoder's sub-word
table, whose rows fit all languages. Runs with these files give the results of the whole ones on these corpora.

    python benchmarks/word_vectors.py --out FILE.gz [--vectors FILE] CORPUS …
    python benchmarks/word_vectors.py --out multilingual.256d.txt.gz --encoder multilingual --size 256 \\
        conll2003_en conll2002_es conll2002_nl
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from rich.console import Console

from nershift.data.catalog import locate
from nershift.data.formats import read_corpus
from nershift.data.raw import RawText
from nershift.encoders.words import find_vectors
from nershift.text.subword_vectors import find_encoder, read_subwords, write_word_vectors
from nershift.text.vectors import prune


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
        told = f"{rows:,} words"
    else:
        told = str(prune(find_vectors(options.vectors), words, options.out))
    Console().print(f"{options.out}: {told}, {options.out.stat().st_size / 1e6:.1f} MB")


def words_of(name: str) -> Counter[str]:
    raw = sorted(locate(name).glob("raw.txt*"))
    if raw:
        return Counter(token for sentence in RawText(raw[0]) for token in sentence.tokens)
    return Counter(token for split in read_corpus(name).splits.values() for s in split for token in s.tokens)


if __name__ == "__main__":
    main()
