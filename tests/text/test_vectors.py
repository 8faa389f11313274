"""Word vector files of every layout, broken in every way that real ones are; look-up, coverage, pruning."""

from __future__ import annotations

import gzip
import os
import random
import re
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.word_vectors import prune
from nershift.data.problems import Problems
from nershift.errors import DataError
from nershift.text.vectors import Vectors, read_vectors
from nershift.text.word_cache import lookup_forms

ROWS = [
    ("the", [0.5, -1.25, 3e-05]),
    ("London", [1.0, 2.0, 3.0]),
    ("日本", [-0.1, 0.2, 7.0]),
    ("00", [4.0, 5.0, 6.0]),
]


def text(rows: list[tuple[str, list[float]]] = ROWS, end: str = "\n", sep: str = " ") -> str:
    return "".join(sep.join([word, *map(str, numbers)]) + end for word, numbers in rows)


def write(folder: Path, content: str | bytes, name: str = "v.txt") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        text(),
        "4 3\n" + text(),  # word2vec
        "4 3\n" + text(end=" \n"),  # fastText leaves a space at the end of a row
        text(end="\r\n"),
        text(sep="\t"),
        "\ufeff" + text(),
        text().rstrip("\n"),
        text() + "\n",
    ],
    ids=["glove", "word2vec", "fasttext", "crlf", "tabs", "bom", "no-last-newline", "blank-last-line"],
)
@pytest.mark.parametrize("gz", [False, True])
def test_every_layout_reads_alike(tmp_path: Path, content: str, gz: bool) -> None:
    data = content.encode()
    vectors = read_vectors(write(tmp_path, gzip.compress(data) if gz else data))
    assert vectors.words == [word for word, _ in ROWS]
    assert vectors.matrix.dtype == np.float32
    np.testing.assert_array_equal(vectors.matrix, np.array([n for _, n in ROWS], dtype=np.float32))


def test_words_with_spaces_take_the_last_columns(tmp_path: Path) -> None:
    rows = [("a", [1.0, 2.0]), (". . .", [3.0, 4.0]), ("at name@host", [5.0, 6.0]), ("b", [7.0, 8.0])]
    vectors = read_vectors(write(tmp_path, text([*rows, ("c", [0.0, 0.0])])))
    assert vectors.words == ["a", ". . .", "at name@host", "b", "c"]
    assert vectors.matrix[1:3].tolist() == [[3, 4], [5, 6]]


@given(
    st.lists(
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
        min_size=1,
    )
)
def test_numbers_survive(tmp_path_factory: pytest.TempPathFactory, numbers: list[list[float]]) -> None:
    rows = [(f"w{i}", row) for i, row in enumerate(numbers)]
    vectors = read_vectors(write(tmp_path_factory.mktemp("v"), text(rows)))
    np.testing.assert_array_equal(vectors.matrix, np.array(numbers, dtype=np.float32))


BROKEN = [
    (b"a 1 2\nb 3\nc 5 6\n", 2, "a row with 1 numbers", "number of columns", ["a", "c"]),
    (b"a 1 2\nb 3 4 5\nc 5 6\n", 2, "a row with 3 numbers", "number of columns", ["a", "c"]),
    (b"a 1 2\nb 3 nan\nc 5 6\n", 2, "'nan' in the vector of 'b'", "not a number", ["a", "c"]),
    (b"a 1 2\nb 3 4\nc -inf 6\n", 3, "'-inf' in the vector of 'c'", "not a number", ["a", "b"]),
    (b"a 1 2\nb 3 1e60\nc 5 6\n", 2, "'1e60' in the vector of 'b'", "not a number", ["a", "c"]),
    (b"a 1 2\nb 3 x\nc 5 6\n", 2, "'x' in the vector of 'b'", "not a number", ["a", "c"]),
    (b"a 1 2\nb 3 4,5\nc 5 6\n", 2, "'4,5' in the vector of 'b'", "not a number", ["a", "c"]),
    (b"a 1 2\nb 3 4\nc 5 6,5\n", 3, "'6,5' in the vector of 'c'", "not a number", ["a", "b"]),
    (b"a 1 2\nb 3 4\na 5 6\n", 3, "'a' already has a vector in line 1", "repeated word", ["a", "b"]),
    (b"a 1 2\n\xff\xfe 3 4\nc 5 6\n", 2, "not UTF-8", "encoding", ["a", "c"]),
    (b"a 1 2\n 3 4\nc 5 6\n", 2, "numbers without a word", "no word", ["a", "c"]),
    (b"3 2\na 1 2\nc 5 6\n", 1, "says 3 rows, the file has 2", "number of rows", ["a", "c"]),
    (b"2 2\na 1 2 3\nc 5 6\n", 2, "a row with 3 numbers", "number of columns", ["c"]),
]


@pytest.mark.parametrize(("content", "line", "message", "kind", "left"), BROKEN)
def test_broken_rows_raise_at_their_line_or_are_repaired(
    tmp_path: Path, content: bytes, line: int, message: str, kind: str, left: list[str]
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(DataError) as caught:
        read_vectors(path)
    assert f"v.txt:{line}: " in str(caught.value)
    assert message in str(caught.value)
    problems = Problems(repair=True)
    vectors = read_vectors(path, problems=problems)
    assert kind in problems.counts()
    assert all(p.repair for p in problems)
    assert vectors.words == left
    assert vectors.matrix.shape == (len(left), 2)
    assert np.isfinite(vectors.matrix).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (b"2 3\nabc \x00\x01\x80\x3f\x00\x00\x00\n", "not a text file"),
        (b"word\nother\n", "not a text file"),
        (b"PK\x03\x04rest", "zip archive"),
        (gzip.compress(text([(f"w{i}", [i, 0, 1]) for i in range(5000)]).encode())[:-20], "broken"),
        (b"\x1f\x8bnonsense", "broken"),
        (b"2 2\n", "says 2 rows, the file has 0"),
    ],
)
def test_files_that_are_no_vector_files(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_vectors(write(tmp_path, content))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(DataError, match="cannot be read"):
            read_vectors(path)


def test_keep_and_limit(tmp_path: Path) -> None:
    path = write(tmp_path, "4 3\n" + text())
    assert read_vectors(path, keep=str.isascii).words == ["the", "London", "00"]
    assert read_vectors(path, keep={"THE", "17"}).words == ["the", "00"]  # under the forms they are looked up
    assert read_vectors(path, limit=2).words == ["the", "London"]
    assert read_vectors(path, keep={"17"}, limit=2).matrix.shape == (0, 3)


def test_many_chunks_keep_their_order(tmp_path: Path) -> None:
    rows = [(f"w{i}", [float(i), -float(i)]) for i in range(20_001)]
    content = text(rows).replace("w9000 9000.0", "w9000 nan")
    problems = Problems(repair=True)
    vectors = read_vectors(write(tmp_path, content), problems=problems)
    assert len(vectors) == 20_000
    assert problems.found[0].place.endswith(":9001")
    assert all(vectors.matrix[i, 0] == int(word[1:]) for i, word in enumerate(vectors.words))


def test_lookup_order() -> None:
    words = ["Apple", "apple", "may", "B-00", "b-00", "00th", "7"]
    vectors = Vectors(words, np.zeros((7, 2), dtype=np.float32))
    expected = {
        "Apple": (0, "exact"),
        "APPLE": (1, "lower"),
        "May": (2, "lower"),
        "B-52": (3, "digits"),
        "b-52": (4, "digits"),
        "13TH": (5, "digits"),
        "7": (6, "exact"),
        "8": None,
        "Pear": None,
    }
    assert {word: vectors.match(word) for word in expected} == expected
    assert [vectors.find(w) for w in ("APPLE", "Pear")] == [1, None]


def test_coverage_counts_words_and_tokens_by_rule() -> None:
    vectors = Vectors(["the", "London", "00"], np.zeros((3, 2), dtype=np.float32))
    coverage = vectors.coverage(Counter({"the": 5, "The": 2, "London": 1, "19": 1, "zzz": 4, "yyy": 7}))
    assert coverage.words == Counter(exact=2, lower=1, digits=1, none=2)
    assert coverage.tokens == Counter(exact=6, lower=2, digits=1, none=11)
    assert coverage.missing == ("yyy", "zzz")
    assert str(coverage) == (
        "vectors for 66.7% of 6 words and 45.0% of 20 tokens (exact 30.0%, lower 10.0%, digits 5.0%, none 55.0%)"
    )
    assert vectors.coverage(Counter()).token_share == 1


def word_list() -> st.SearchStrategy[list[str]]:
    return st.lists(st.text("aAbB019. ", min_size=1, max_size=4).filter(str.strip), max_size=30)


@settings(deadline=None)
@given(word_list(), word_list(), st.booleans())
def test_pruned_file_answers_like_the_whole(
    tmp_path_factory: pytest.TempPathFactory, known: list[str], asked: list[str], gz: bool
) -> None:
    folder = tmp_path_factory.mktemp("prune")
    known = [" ".join(word.split()) for word in known if not re.search(r" [\d.]*\d", word)]  # would read as numbers
    known = list(dict.fromkeys(known)) or ["a"]
    rng = random.Random(len(known))
    header = f"{len(known)} 4\n"
    path = write(folder, header + text([(w, [rng.gauss(0, 1) for _ in range(4)]) for w in known]))
    problems = Problems(repair=True)
    whole = read_vectors(path, problems=problems)
    out = folder / ("small.txt.gz" if gz else "small.txt")
    counts = Counter([*asked, whole.words[0]])
    coverage = prune(path, counts, out, Problems(repair=True))
    small = read_vectors(out)
    assert coverage == whole.coverage(counts) == small.coverage(counts)
    for word in counts:
        a, b = whole.match(word), small.match(word)
        assert (a is None) == (b is None)
        if a and b:
            assert a[1] == b[1]
            assert whole.words[a[0]] == small.words[b[0]]
            assert (whole.matrix[a[0]] == small.matrix[b[0]]).all()
    assert len(small) == len({whole.find(w) for w in counts} - {None})
    read = out.read_bytes()
    prune(out, counts, out)  # nothing more to remove, and the bytes do not depend on the time of day
    assert out.read_bytes() == read


@pytest.mark.parametrize("filler", [0, 9000])
def test_of_repeated_words_the_first_counts_even_if_unusable(tmp_path: Path, filler: int) -> None:
    rows = text([(f"w{i}", [1.0, 2.0]) for i in range(filler)])
    path = write(tmp_path, "a nan 1\nb 1 2\n" + rows + "a 3 4\nb 5 6\n")
    vectors = read_vectors(path, problems=Problems(repair=True))
    assert vectors.find("a") is None
    assert vectors.matrix[0].tolist() == [1, 2]
    prune(path, ["A", "B"], tmp_path / "small.txt", Problems(repair=True))
    assert (tmp_path / "small.txt").read_text() == "1 2\nb 1 2\n"


def test_prune_without_a_single_hit(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none of the 2 words"):
        prune(write(tmp_path, text()), ["xyz", "abc"], tmp_path / "o.txt")


def test_forms_are_those_of_find() -> None:
    assert [form for form, _ in lookup_forms("Ab1")] == ["Ab1", "ab1", "Ab0", "ab0"]


@pytest.mark.slow
def test_a_large_file_reads_fast(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(0, 0.4, (20_000, 100))
    path = tmp_path / "large.txt"
    with path.open("w") as file:
        for i, row in enumerate(rows):
            file.write(f"w{i} " + " ".join(f"{x:.5f}" for x in row) + "\n")
    start = time.process_time()
    vectors = read_vectors(path)
    seconds = time.process_time() - start
    assert vectors.matrix.shape == (20_000, 100)
    if not os.environ.get("CI"):
        assert seconds * 20 < 30  # 400,000 rows; about half of it when the machine is idle
