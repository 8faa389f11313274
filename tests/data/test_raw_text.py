"""Text on disk against the same text in memory."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from nershift.data import raw
from nershift.data.corpus import Corpus
from nershift.data.formats import read_sentences
from nershift.data.raw import Joined, RawText
from nershift.data.spans import Sentence
from nershift.errors import DataError


@pytest.fixture
def lines() -> list[str]:
    rng = random.Random(0)
    words = ["In", "Łódź", "1998", ",", "x\u2028y", "né", "\u00a0"]
    made = [" ".join(rng.choices(words, k=rng.randrange(1, 9))) for _ in range(300)]
    made[3:3] = ["", "a\tb  c ", "with return\r", "   "]
    return made


@pytest.fixture
def file(lines: list[str], tmp_path: Path) -> Path:
    path = tmp_path / "some.raw"
    path.write_bytes("\n".join(lines).encode())  # no line sampler at the end
    return path


@pytest.mark.parametrize("marks", [4, 37, 8192])
@pytest.mark.parametrize("packed", [False, True])
def test_it_is_what_the_reader_of_whole_files_reads(
    file: Path, marks: int, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "_MARKS", marks)
    expected = read_sentences(file, "raw")
    if packed:
        file = file.with_name("some.raw.gz")
        file.write_bytes(gzip.compress(file.with_suffix("").read_bytes()))
    text = RawText(file)
    assert len(text) == len(expected) == 302
    assert list(text) == expected
    assert len(text._marks) <= marks
    for at in (0, 1, 2, 100, 299, 301, -1, -302):
        assert text[at] == expected[at]
    for part in (slice(0, 5), slice(290, 400), slice(7, 7), slice(None, None, 50), slice(-3, None)):
        assert text[part] == expected[part]
    assert text.digest() == Corpus("any", {"raw": tuple(expected)}).digest()
    with pytest.raises(IndexError):
        text[302]


def test_running_text_is_cut_as_the_reader_of_whole_files_cuts_it(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text("Dr. Who left. Nobody saw it!\n\nThe end, in 1998.")
    found = [s.tokens for s in RawText(path, "text")]
    assert found == [s.tokens for s in read_sentences(path, "text")]
    assert found[1] == ("Nobody", "saw", "it", "!")


def test_bad_lines_are_counted_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "_LONGEST", 6000)
    path = tmp_path / "mixed.raw"
    good = [b"\xef\xbb\xbffirst line", b"second", b"third", b"fourth"]
    path.write_bytes(
        b"\n".join([*good[:1], b"caf\xe9", b"y" * 20_000, *good[1:3], b"w " * 1001, b"caf\xe9 2", good[3]])
    )
    text = RawText(path)
    assert [s.tokens for s in text] == [("first", "line"), ("second",), ("third",), ("fourth",)]
    assert text.bad == {"encoding": 2, "long line": 1, "long sentence": 1}
    assert [p.place for p in text.examples] == [f"{path}:{n}" for n in (2, 3, 6, 7)]
    assert "4 sentences; 4 bad lines left out (encoding 2" in text.summary()
    assert f"{path}:2: bytes that are not UTF-8" in text.summary()


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.raw"
    with pytest.raises(DataError, match="no such file"):
        RawText(path)
    path.write_bytes(b"\n \n")
    with pytest.raises(DataError, match="no sentences"):
        RawText(path)
    path.write_bytes(b"\xff\xfe\n\xff\nfine\n")
    with pytest.raises(DataError, match="2 lines cannot be used and 1 sentences can") as error:
        RawText(path)
    assert error.value.place == f"{path}:1"
    packed = tmp_path / "a.raw.gz"
    packed.write_bytes(gzip.compress(b"some text\n" * 99)[:-9])
    with pytest.raises(DataError, match="unpacked"):
        RawText(packed)


def test_joined_texts_are_one(file: Path) -> None:
    parts = [[Sentence.of(["a"]), Sentence.of(["b"])], RawText(file), [], [Sentence.of(["c"])]]
    whole = [s for part in parts for s in part]
    joined = Joined(parts)
    assert len(joined) == len(whole) == 305
    assert list(joined) == whole
    for part in (slice(0, 2), slice(1, 5), slice(290, 999), slice(4, 4), slice(0, None, 3), slice(-2, None)):
        assert joined[part] == whole[part]
    assert (joined[0], joined[2], joined[-1]) == (whole[0], whole[2], whole[-1])
