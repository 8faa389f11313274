"""Word vectors from text files (GloVe, word2vec, fastText)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nershift.data.problems import Problem, Problems
from nershift.errors import DataError
from nershift.text.vector_file import VectorFile, parse_rows
from nershift.text.word_cache import Rule, lookup_forms

RULES: tuple[Rule, ...] = ("exact", "lower", "digits")
CHUNK = 8192  # rows parsed at once: large enough for numpy, small enough to hold as text


@dataclass(frozen=True)
class Coverage:
    """How much of a text the vectors cover: distinct words and tokens, by the rule that matched them."""

    words: Counter[str]
    tokens: Counter[str]
    missing: tuple[str, ...]
    """The ten most frequent words without a vector, in order."""

    @property
    def word_share(self) -> float:
        return 1 - self.words["none"] / max(1, self.words.total())

    @property
    def token_share(self) -> float:
        return 1 - self.tokens["none"] / max(1, self.tokens.total())

    def __str__(self) -> str:
        total = max(1, self.tokens.total())
        by_rule = ", ".join(f"{rule} {self.tokens[rule] / total:.1%}" for rule in (*RULES, "none"))
        return (
            f"vectors for {self.word_share:.1%} of {self.words.total():,} words and "
            f"{self.token_share:.1%} of {self.tokens.total():,} tokens ({by_rule})"
        )


@dataclass(frozen=True, eq=False)
class Vectors:
    """Words and their rows, in file order.

    Example:
        >>> v = Vectors(["paris", "B-00"], np.eye(2, dtype=np.float32))
        >>> v.find("Paris"), v.match("B-52"), v.find("Rome")
        (0, (1, 'digits'), None)
    """

    words: list[str]
    matrix: npt.NDArray[np.float32]  # [words, dim]

    @cached_property
    def index(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dim(self) -> int:
        return int(self.matrix.shape[1])

    def find(self, word: str) -> int | None:
        """The row of a word: as written, else lower-cased, else with digits as 0 (cased, then lower-cased)."""
        match = self.match(word)
        return None if match is None else match[0]

    def match(self, word: str) -> tuple[int, Rule] | None:
        """The row of a word and the rule that matched it."""
        for form, rule in lookup_forms(word):
            row = self.index.get(form)
            if row is not None:
                return row, rule
        return None

    def coverage(self, words: Mapping[str, int]) -> Coverage:
        """Look up counted words; pass a :class:`~collections.Counter` of the tokens of a corpus."""
        types: Counter[str] = Counter()
        tokens: Counter[str] = Counter()
        missing: Counter[str] = Counter()
        for word, count in words.items():
            match = self.match(word)
            rule = match[1] if match else "none"
            types[rule] += 1
            tokens[rule] += count
            if match is None:
                missing[word] = count
        return Coverage(types, tokens, tuple(word for word, _ in missing.most_common(10)))


def read_vectors(
    path: str | Path,
    keep: Callable[[str], bool] | Collection[str] | None = None,
    limit: int | None = None,
    problems: Problems | None = None,
) -> Vectors:
    """Read a text file of word vectors, plain or gzipped, with or without a first line ``rows columns``.

    The last columns are the numbers and all before them is the word, which may contain spaces.

    Args:
        path: the file.
        keep: which rows to keep. A collection of words keeps each row under which one of them is looked up:
            :meth:`Vectors.find` gives these words the same vectors as the whole file would.
        limit: read this many rows only. The usual files are sorted by frequency.
        problems: with ``repair=True``, unusable rows are left out and noted; by default the first raises.

    Raises:
        DataError: for a file that is missing, binary, cut off, or without usable rows; unless repaired, also
            for a word that is not UTF-8 or comes twice, a row with too few, too many or non-finite numbers.
    """
    problems = Problems() if problems is None else problems
    file = VectorFile.open(path)
    seen: dict[str, int] = {}  # word -> line; of a word that comes twice the first row counts, usable or not
    unusable: set[str] = set()
    blocks: list[npt.NDArray[np.float32]] = []
    chunk: list[tuple[int, str, bytes]] = []

    def flush() -> None:
        matrix, bad = parse_rows(chunk, file, problems)
        unusable.update(bad)
        blocks.append(matrix)
        chunk.clear()

    wanted = keep
    if wanted is not None and not callable(wanted):
        wanted = {form for word in wanted for form, _ in lookup_forms(word)}.__contains__
    for line, word, numbers in file.rows(problems, limit):
        if wanted is not None and not wanted(word):
            continue
        if word in seen:
            found = f"the word '{word}' already has a vector in line {seen[word]}"
            fix = "remove one of the two rows, or read with repair"
            place = f"{file.path}:{line}"
            problems.add(Problem("repeated word", place, found, "one row per word", fix, repair="the first row counts"))
            continue
        seen[word] = line
        chunk.append((line, word, numbers))
        if len(chunk) == CHUNK:
            flush()
    flush()
    words = [word for word in seen if word not in unusable]
    if not words and keep is None:
        raise DataError("no usable row", place=str(path), expected="a word and its numbers on each line")
    return Vectors(words, np.concatenate(blocks))
